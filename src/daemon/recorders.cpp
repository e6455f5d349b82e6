#include "daemon/recorders.h"

#include <algorithm>
#include <utility>

namespace gpuyard::daemon {
namespace {

bottleneck::BottleneckThresholds thresholds_of(const config::Config::Bottleneck& of) {
  return {of.least_share_percent, of.starved_below_percent, of.waiting_power_percent,
          of.idle_after_s, of.memory_full_percent};
}

std::string lease_of(const DeviceId& gpu, const lease::LeaseManager& leases) {
  for (const lease::Lease* lease : leases.leases_with_gpus()) {
    if (std::ranges::find(lease->gpus, gpu) != lease->gpus.end()) return lease->id;
  }
  return {};
}

}  // namespace

Recorders::Recorders(Loop& loop, Workers& workers, const config::Config& config, bool recorded,
                     const std::string& boot)
    : process_tracker_(workers.names, config.processes.proc_root, recorded),
      bottleneck_detector_(thresholds_of(config.bottleneck)),
      history_db_(std::make_shared<store::HistoryDb>(config.state.directory + "/history.db")),
      history_(loop, workers.query, history_db_, boot),
      process_recorder_(workers.query, history_db_, boot),
      bottleneck_recorder_(workers.query, history_db_) {}

void Recorders::annotate(Snapshot& snapshot, const lease::LeaseManager& leases) {
  bottleneck_detector_.detect(
      snapshot, [&](const DeviceState& device) { return external_facts(device, leases); });
}

bottleneck::ExternalFacts Recorders::external_facts(const DeviceState& device,
                                                    const lease::LeaseManager& leases) const {
  bottleneck::ExternalFacts external;
  if (!leases.grant_error()) external.leased = leases.is_leased(device.info.id);
  const auto* const processes = device.sample.listed_processes();
  if (processes == nullptr) return external;
  external.cpu_percent = 0;
  for (const GpuProcess& process : *processes) {
    const auto facts = process_tracker_.directory().find(process.pid);
    if (!facts || !(*facts)->cpu_percent) {
      external.cpu_percent.reset();  // that process may be the one
      break;
    }
    external.cpu_percent = std::max(*external.cpu_percent, *(*facts)->cpu_percent);
  }
  return external;
}

void Recorders::record_changes(const Snapshot& snapshot, events::EventLog& log) {
  for (events::Event& change : change_detector_.update(snapshot)) log.add(std::move(change));
}

void Recorders::on_snapshot(const Snapshot& snapshot, const lease::LeaseManager& leases) {
  process_tracker_.on_snapshot(snapshot);
  history_.on_snapshot(snapshot);
  bottleneck_recorder_.on_snapshot(snapshot);
  process_recorder_.on_snapshot(snapshot, process_tracker_.directory(),
                                [&](const DeviceId& gpu) { return lease_of(gpu, leases); });
}

void Recorders::flush() {
  history_.flush();
  process_recorder_.flush();
  bottleneck_recorder_.flush();
}

}  // namespace gpuyard::daemon
