// A command as a sink: run once for each notification, which it finds in its environment. Inner
// header.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/command_run.h"
#include "base/loop.h"
#include "io/notify/notification.h"
#include "io/notify/sender.h"
#include "io/notify/sink_config.h"

namespace gpuyard::notify {

// GPUYARD_ALERT_MESSAGE and the others, and GPUYARD_ALERT_JSON.
std::vector<std::pair<std::string, std::string>> environment_of(const Notification&);

class CommandSender final : public Sender {
 public:
  CommandSender(Loop& loop, SinkConfig sink) : loop_(loop), sink_(std::move(sink)) {}
  void send(std::vector<Notification> notifications, OnDone on_done) override;

 private:
  Loop& loop_;
  SinkConfig sink_;
  std::optional<CommandRun> run_;
};

}  // namespace gpuyard::notify
