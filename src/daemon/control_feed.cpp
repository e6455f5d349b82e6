#include "daemon/control_feed.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

namespace gpuyard::daemon {
namespace {

control::Policy policy_of(const config::Config& config) {
  return {config.control.enabled,
          config.control.on_stop == config::Config::Control::OnStop::restore,
          config.shares.changes_a_minute};
}

std::string expanded(std::string text, const DeviceInfo& gpu) {
  const std::pair<std::string_view, std::string> names[] = {
      {"{index}", std::to_string(gpu.index)}, {"{uuid}", gpu.uuid}, {"{pci}", gpu.pci_address}};
  for (const auto& [name, value] : names) {
    for (std::size_t at = text.find(name); at != text.npos; at = text.find(name, at)) {
      text.replace(at, name.size(), value);
      at += value.size();
    }
  }
  return text;
}

std::string process_numbers(const std::vector<GpuProcess>& processes) {
  constexpr std::size_t kMostNamed = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(processes.size(), kMostNamed); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", processes[i].pid);
  }
  return processes.size() > kMostNamed ? text + ", ..." : text;
}

Error reset_failed(const CommandOutcome& outcome) {
  return {Errc::internal,
          fmt::format("the reset command {}: {}", outcome.text(),
                      outcome.output.empty() ? "no output" : trimmed(outcome.output))};
}

}  // namespace

ControlFeed::ControlFeed(Loop& loop, driver::HostClient& host,
                         const telemetry::Telemetry& telemetry, store::StateStore& state,
                         const config::Config& config, std::string epoch)
    : loop_(loop),
      host_(host),
      telemetry_(telemetry),
      config_(config.control),
      books_(loop, state),
      control_(loop, *this, books_, policy_of(config), boot_id(), std::move(epoch)) {}

// Simulated GPUs are reset by their own command, unless the user configured another.
std::vector<std::string> ControlFeed::reset_command() const {
  const bool simulated = telemetry_.latest()->driver.info.simulated;
  if (!simulated || config_.reset_command != config::Config::Control{}.reset_command) {
    return config_.reset_command;
  }
  return {"/proc/self/exe", "sim", "reset", "--as-driver", "--gpu", "{uuid}"};
}

Result<void> ControlFeed::may_reset(const DeviceInfo& gpu) {
  if (config_.reset_command.empty()) {
    return Error{Errc::unsupported,
                 "no reset_command is configured under [control]: NVML itself cannot reset a GPU"};
  }
  const auto latest = telemetry_.latest();
  const auto device =
      std::ranges::find_if(latest->devices, [&](const auto& one) { return one.info.id == gpu.id; });
  if (device == latest->devices.end()) return {};
  const auto& list = device->sample.processes();
  const auto* processes = list ? list->processes() : nullptr;
  if (processes == nullptr) {
    // A lost GPU tells no processes, and a reset may be what it needs.
    if (device->condition != DeviceCondition::responsive) return {};
    return Error{Errc::unavailable,
                 fmt::format("cannot determine now whether processes are using GPU {}", gpu.index)};
  }
  if (processes->empty()) return {};
  return Error{Errc::conflict, fmt::format("GPU {} cannot be reset", gpu.index),
               "it is in use by PID " + process_numbers(*processes)};
}

void ControlFeed::reset(const DeviceInfo& gpu, Done done) {
  log::warning("resetting GPU {}; all GPUs are unavailable until it is done", gpu.index);
  host_.pause([this, gpu, done = std::move(done)](const Result<void>& ended) {
    if (ended) return run_reset_command(gpu, done);
    host_.resume();
    done(Error(ended.error()).in("nothing was reset"));
  });
}

void ControlFeed::run_reset_command(const DeviceInfo& gpu, const Done& done) {
  CommandPlan plan;
  for (const std::string& argument : reset_command()) plan.argv.push_back(expanded(argument, gpu));
  plan.deadline = std::chrono::seconds(config_.reset_timeout_s);
  resetting_.emplace(loop_, plan, [this, gpu, done](const CommandOutcome& outcome) {
    const std::string line = fmt::format("GPU {}: the reset command {}", gpu.index, outcome.text());
    outcome.succeeded() ? log::info("{}", line) : log::warning("{}", line);
    const Result<void> result =
        outcome.succeeded() ? Result<void>() : Result<void>(reset_failed(outcome));
    // The caller may go on once the GPU is there again.
    reset_done_ = [done, result] { done(result); };
    back_deadline_ = loop_.call_after(driver::HostClient::kHelloDeadline, [this] { end_reset(); });
    host_.resume();
  });
}

void ControlFeed::on_fleet(const Fleet& fleet) {
  control_.on_fleet(fleet);
  end_reset();
}

void ControlFeed::end_reset() {
  back_deadline_.reset();
  if (const auto told = std::exchange(reset_done_, nullptr)) told();
}

}  // namespace gpuyard::daemon
