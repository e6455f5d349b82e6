#include "daemon/lease_feed.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/boot.h"
#include "daemon/descriptor_budget.h"
#include "daemon/lease_gpus.h"

namespace gpuyard::daemon {
namespace {

lease::Policy policy_of(const config::Config& whole, const processes::SubordinateUids& uids) {
  const config::Config::Lease& config = whole.lease;
  lease::Policy policy;
  policy.shares = whole.shares;
  policy.most_waiting = most_waiting_claims(descriptor_limit());
  policy.person = [&uids](std::uint32_t uid) { return uids.person(uid); };
  policy.fairness.strict = config.fair == config::Config::Lease::Fair::strict;
  policy.fairness.most_gpus_of_owner = static_cast<unsigned>(config.most_gpus_per_user);
  policy.end_overdue = config.end_overdue;
  return policy;
}

TimePoint newest_list(const Snapshot& snapshot) {
  TimePoint newest{};
  for (const DeviceState& device : snapshot.devices) {
    const auto& list = device.sample.processes();
    if (list) newest = std::max(newest, list->taken);
  }
  return newest;
}

}  // namespace

LeaseFeed::LeaseFeed(Loop& loop, Worker& query, telemetry::Telemetry& telemetry,
                     control::Control& control, events::Journal& journal, store::StateStore& state,
                     const config::Config& config, const processes::SubordinateUids& uids,
                     bool recorded)
    : loop_(loop),
      telemetry_(telemetry),
      journal_(journal),
      observer_(loop, query, telemetry,
                {.proc_root = config.processes.proc_root, .recorded = recorded}),
      books_(loop, state),
      leases_(loop, observer_, books_, policy_of(config, uids), boot_id()),
      settings_(loop, control, leases_) {
  leases_.on_change([this](const lease::Lease& now, lease::State before) {
    if (before == lease::State::held && now.state != lease::State::held) settings_.look();
    if (told_) told_(now, before);
  });
  leases_.on_drained([this](const lease::Lease& lease) { return settings_.left(lease); });
  leases_.on_squatter(
      [this](const DeviceId& gpu, const lease::Seen& one) { tell_of_squatter(gpu, one); });
}

void LeaseFeed::on_snapshot(const Snapshot& snapshot, const Quarantined& quarantined) {
  if (!snapshot.driver.initialised) return;
  auto gpus = pool_gpus(snapshot);
  for (lease::PoolGpu& gpu : gpus) {
    if (!gpu.withheld.empty()) continue;
    gpu.text = quarantined(gpu.info.id);
    if (!gpu.text.empty()) gpu.withheld = "quarantined";
  }
  leases_.on_gpus(gpus);
  const TimePoint newest = newest_list(snapshot);
  if (std::exchange(newest_list_, newest) != newest) leases_.on_processes();
  settings_.look();
}

void LeaseFeed::tell_of_squatter(const DeviceId& gpu, const lease::Seen& one) {
  const auto known = leases_.gpus().gpus().find(gpu);
  events::Event event;
  event.at = loop_.now();
  event.wall = loop_.wall();
  event.device = gpu;
  if (known != leases_.gpus().gpus().end()) event.index = known->second.info.index;
  event.kind = "squatter";
  event.severity = Severity::warn;
  event.text = fmt::format(
      "pid {} ({}) of uid {} uses the GPU outside any lease{}; `gpuyard lease adopt --pid {}` "
      "makes "
      "it a lease",
      one.pid, one.command, one.uid,
      one.memory_bytes ? fmt::format(", with {} MiB", *one.memory_bytes >> 20) : "", one.pid);
  journal_.add(std::move(event));
}

}  // namespace gpuyard::daemon
