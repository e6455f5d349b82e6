#include "notify/command_sender.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/json_writer.h"

namespace gpuyard::notify {
namespace {

// The kernel takes 128 KiB of one variable.
constexpr std::size_t kMostValue = std::size_t{64} * 1024;

std::string flag(bool set) {
  return set ? "1" : "0";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> environment_of(const Notice& notice) {
  const NoticeGpu gpu = notice.gpu.value_or(NoticeGpu());
  std::vector<std::pair<std::string, std::string>> variables = {
      {"ID", notice.id},
      {"KEY", notice.key},
      {"RULE", notice.rule},
      {"STATUS", std::string(enum_name(notice.status))},
      {"SEVERITY", std::to_string(notice.severity)},
      {"LEVEL", std::string(enum_name(notice.level))},
      {"MESSAGE", notice.message},
      {"ADVICE", notice.advice},
      {"HOST", notice.host},
      {"GPU_INDEX", notice.gpu ? std::to_string(gpu.index) : ""},
      {"GPU_UUID", gpu.uuid},
      {"GPU_PCI_ADDRESS", gpu.pci_address},
      {"GPU_NAME", gpu.name},
      {"STARTED_AT", to_rfc3339(notice.started_at)},
      {"ENDED_AT", notice.ended_at ? to_rfc3339(*notice.ended_at) : ""},
      {"SIMULATED", flag(notice.simulated)},
      {"TEST", flag(notice.test)},
      {"JSON", json::to_json(notice)}};
  for (auto& [name, value] : variables) {
    name.insert(0, "GPUYARD_ALERT_");
    std::ranges::replace(value, '\0', ' ');
    value.resize(std::min(value.size(), kMostValue));
  }
  return variables;
}

void CommandSender::send(std::vector<Notice> notices, Done done) {
  const CommandPlan plan{.argv = sink_.argv,
                         .environment = environment_of(notices.front()),
                         .deadline = sink_.timeout};
  run_.reset();
  run_.emplace(loop_, plan, [where = sink_.where(), done = std::move(done)](const auto& outcome) {
    if (outcome.succeeded()) return done(Outcome::taken());
    // What it printed is not repeated: nobody knows what that is.
    done(Outcome::later(fmt::format("{} {}", where, outcome.text())));
  });
}

}  // namespace gpuyard::notify
