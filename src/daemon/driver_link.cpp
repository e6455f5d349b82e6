#include "daemon/driver_link.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace gpuyard::daemon {
namespace {

HealthPolicy health_policy(const config::Config::Health& health) {
  const auto thresholds = [](const config::Config::Temperatures& own) {
    return HealthThresholds{own.degraded, own.unhealthy};
  };
  HealthPolicy policy{thresholds(health.common), {}};
  for (const auto& [gpu, own] : health.of_gpu) policy.of_gpu[gpu] = thresholds(own);
  return policy;
}

// Nothing if none is configured.
std::optional<Result<UniqueFd>> open_kernel_log(const std::string& path) {
  if (path.empty()) return std::nullopt;
  return events::open_kernel_log(path);
}

}  // namespace

std::vector<std::string> driver_arguments(const ServeOptions& options, rlim_t descriptors) {
  auto arguments = library::arguments_of(options.driver);
  arguments.insert(arguments.end(), {"--nofile", std::to_string(descriptors)});
  return arguments;
}

DriverLink::DriverLink(http::IoLoop& loop, const ServeOptions& options, rlim_t descriptors)
    : loop_(loop),
      options_(options),
      kernel_log_file_(open_kernel_log(options.config.events.kernel_log)),
      host_(
          loop,
          [arguments = driver_arguments(options, descriptors)] {
            return driver::spawn_host(arguments);
          },
          *this),
      telemetry_(loop, *this, health_policy(options.config.health)),
      event_collector_(loop, event_log_, event_listener()) {
  telemetry_.set_interval(std::chrono::seconds(options.config.telemetry.interval_s));
}

events::EventCollector::Listener DriverLink::event_listener() {
  return {[this](const DeviceEvent& event) {
            telemetry_.on_event(event);
            consumers_->alerts.on_event(event);
          },
          [this](const DeviceEvent& event) {
            telemetry_.on_duplicate_event(event);
            consumers_->alerts.on_duplicate_event(event);
          }};
}

void DriverLink::start(const Consumers& consumers, std::function<bool(const DeviceId&)> is_needed) {
  consumers_.emplace(consumers);
  is_needed_ = std::move(is_needed);
  host_.start();
}

void DriverLink::on_snapshot(const Snapshot& snapshot) {
  if (const auto why = renewal_.evaluate(snapshot)) {
    loop_.post(lifetime_.guard([this, why = *why] { host_.restart(why); }));
  }
}

// The machine's own log is about its own GPUs. Simulated GPUs have the same addresses.
void DriverLink::follow_kernel_log(bool simulated) {
  auto file = std::exchange(kernel_log_file_, std::nullopt);
  const std::string& path = options_.config.events.kernel_log;
  const bool of_others = simulated && path == config::Config::Events{}.kernel_log;
  if (!file || of_others) return;
  if (!*file) {
    return log::info("no Xids from the kernel log, only the driver's own events: {}",
                     file->error().text());
  }
  kernel_log_.emplace(
      loop_, *std::move(*file),
      events::KernelLog::Listener{
          [this](const events::KernelXid& xid, TimePoint written) {
            event_collector_.on_kernel_xid(xid, written);
          },
          [this](const std::string& what) { event_collector_.on_events_lost(what); }});
}

// The machine's own PCI devices are not the simulated or recorded GPUs that have their addresses.
void DriverLink::follow_runtime_power(bool simulated) {
  const std::string& root = options_.config.telemetry.pci_root;
  const bool of_others =
      (simulated || options_.driver.replay) && root == config::Config::Telemetry{}.pci_root;
  auto source =
      root.empty() || of_others ? nullptr : std::make_unique<telemetry::PciRuntimePower>(root);
  telemetry_.set_runtime_power(std::move(source), is_needed_);
}

void DriverLink::on_no_driver(const Error& error) {
  follow_kernel_log(false);
  inventory_.reset();
  telemetry_.on_no_driver(error);
}

void DriverLink::on_inventory(const Inventory& inventory) {
  event_collector_.on_inventory(inventory);
  follow_kernel_log(inventory.driver.simulated);
  follow_runtime_power(inventory.driver.simulated);
  inventory_ = inventory;
  consumers_->memory.recall(machine_of(inventory.driver), [this] { publish_inventory(); });
}

// Simulated boards, recordings and another NVML are another machine.
std::string DriverLink::machine_of(const DriverInfo& driver) const {
  if (options_.driver.replay) return "";
  if (driver.simulated) return kSimulatedMachine + options_.simulated_world();
  return options_.driver.path.empty() ? "this" : "nvml:" + options_.driver.path;
}

void DriverLink::publish_inventory() {
  if (!inventory_) return;
  const Inventory inventory = *std::exchange(inventory_, std::nullopt);
  telemetry_.on_inventory(inventory);
  consumers_->control.on_inventory(inventory);
  // The kernel may report a board that the driver does not list. Another board in its slot has
  // taken its address.
  Inventory missing{inventory.driver, telemetry_.missing_boards()};
  std::erase_if(missing.devices, [&](const DeviceInfo& board) {
    return std::ranges::any_of(inventory.devices, [&](const DeviceInfo& info) {
      return is_same_pci_slot(info.pci_address, board.pci_address);
    });
  });
  event_collector_.on_inventory(missing);
}

void DriverLink::on_command_reply(const CommandReply& reply) {
  consumers_->control.control().on_reply(reply);
}

void DriverLink::on_host_down(const std::string& why) {
  inventory_.reset();
  telemetry_.on_host_down(why);
  consumers_->control.on_host_down(why);
}

}  // namespace gpuyard::daemon
