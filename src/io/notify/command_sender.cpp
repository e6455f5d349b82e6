#include "io/notify/command_sender.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "base/json_writer.h"
#include "base/record.h"

namespace gpuyard::notify {
namespace {

// The most bytes of one variable; the kernel takes 128 KiB.
constexpr std::size_t kMaxVariableBytes = std::size_t{64} * 1024;

std::string flag(bool set) {
  return set ? "1" : "0";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> environment_of(const Notification& notification) {
  const NotificationGpu gpu = notification.gpu.value_or(NotificationGpu());
  std::vector<std::pair<std::string, std::string>> variables = {
      {"ID", notification.id},
      {"KEY", notification.key},
      {"RULE", notification.rule},
      {"STATUS", std::string(enum_name(notification.status))},
      {"SEVERITY", std::to_string(notification.severity)},
      {"LEVEL", std::string(enum_name(notification.level))},
      {"MESSAGE", notification.message},
      {"ADVICE", notification.advice},
      {"HOST", notification.host},
      {"GPU_INDEX", gpu.index ? std::to_string(*gpu.index) : ""},
      {"GPU_UUID", gpu.uuid},
      {"GPU_PCI_ADDRESS", gpu.pci_address},
      {"GPU_NAME", gpu.name},
      {"STARTED_AT", to_rfc3339(notification.started_at)},
      {"ENDED_AT", notification.ended_at ? to_rfc3339(*notification.ended_at) : ""},
      {"SIMULATED", flag(notification.simulated)},
      {"TEST", flag(notification.test)},
      {"JSON", json::to_json(notification)}};
  for (auto& [name, value] : variables) {
    name.insert(0, "GPUYARD_ALERT_");
    std::ranges::replace(value, '\0', ' ');
    value.resize(std::min(value.size(), kMaxVariableBytes));
  }
  return variables;
}

void CommandSender::send(std::vector<Notification> notifications, OnDone on_done) {
  const CommandOptions options{.argv = sink_.argv,
                               .environment = environment_of(notifications.front()),
                               .timeout = sink_.timeout};
  run_.reset();
  run_.emplace(loop_, options,
               [where = sink_.destination(), on_done = std::move(on_done)](const auto& completion) {
                 if (completion.succeeded()) return on_done(SendResult::delivered());
                 // The output of the command is not repeated: it could be anything.
                 on_done(SendResult::retry_later(fmt::format("{} {}", where, completion.text())));
               });
}

}  // namespace gpuyard::notify
