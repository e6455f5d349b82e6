// Sends to a sink over the network, by requests from a thread of its own. Inner header.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/lifetime.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/worker.h"
#include "io/http/client.h"
#include "io/notify/notification.h"
#include "io/notify/sender.h"
#include "io/notify/sink_config.h"

namespace gpuyard::notify {

// Decides what a receiver's response, or the lack of one, means for the notification. Pure.
SendResult classify_response(const SinkConfig&, const Result<http::ClientResponse>&);

using Fetch = std::function<Result<http::ClientResponse>(const http::Origin&,
                                                         const http::ClientRequest&, Duration)>;
Fetch fetch_over_network();

class HttpSender final : public Sender {
 public:
  HttpSender(Loop&, SinkConfig, std::unique_ptr<Worker>, Fetch);
  void send(std::vector<Notification> notifications, OnDone on_done) override;

 private:
  Loop& loop_;
  std::shared_ptr<const SinkConfig> sink_;
  std::shared_ptr<const Fetch> fetch_;
  std::string unused_proxy_;  // the variable that names it
  Lifetime lifetime_;
  std::unique_ptr<Worker> worker_;
};

}  // namespace gpuyard::notify
