#include "daemon/lease_adapter.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/proc_stat.h"
#include "daemon/descriptor_budget.h"
#include "daemon/pool_gpus.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::daemon {
namespace {

lease::LeasePolicy policy_of(const config::Config& whole, const processes::SubordinateUids& uids) {
  const config::Config::Lease& config = whole.lease;
  lease::LeasePolicy policy;
  using Mode = config::Config::Lease::Mode;
  policy.mode = config.mode == Mode::grant     ? lease::GrantMode::grant
                : config.mode == Mode::observe ? lease::GrantMode::observe
                                               : lease::GrantMode::automatic;
  policy.quotas = whole.shares;
  policy.max_waiting_claims = max_waiting_claims(descriptor_limit());
  policy.quota_owner = [&uids](std::uint32_t uid) { return uids.owner_of(uid); };
  policy.fairness.strict = config.fair == config::Config::Lease::Fair::strict;
  policy.fairness.max_gpus_per_owner = static_cast<unsigned>(config.most_gpus_per_user);
  policy.end_overdue = config.end_overdue;
  return policy;
}

TimePoint newest_list_time(const Snapshot& snapshot) {
  TimePoint newest{};
  for (const DeviceState& device : snapshot.devices) {
    const auto& list = device.sample.processes();
    if (list) newest = std::max(newest, list->taken);
  }
  return newest;
}

}  // namespace

LeaseAdapter::LeaseAdapter(Loop& loop, Worker& query_worker, telemetry::Telemetry& telemetry,
                           control::SettingController& control, events::EventLog& event_log,
                           store::StateStore& state, const config::Config& config,
                           const processes::SubordinateUids& uids, bool recorded,
                           std::shared_ptr<processes::MarkClient> marks)
    : loop_(loop),
      event_log_(event_log),
      marks_(std::move(marks)),
      observer_(loop, query_worker, telemetry,
                {.proc_root = config.processes.proc_root,
                 .recorded = recorded,
                 .quota_owner = [all = std::make_shared<const processes::SubordinateUids>(uids)](
                                    std::uint32_t uid) { return all->owner_of(uid); },
                 .marks = marks_}),
      db_(loop, state),
      leases_(loop, observer_, db_, policy_of(config, uids), boot_id()),
      settings_restorer_(loop, control, leases_) {
  leases_.set_on_change([this](const lease::Lease& now, lease::LeaseState before) {
    if (before == lease::LeaseState::held && now.state != lease::LeaseState::held)
      settings_restorer_.restore_ended();
    if (on_change_) on_change_(now, before);
  });
  leases_.set_drain_check(
      [this](const lease::Lease& lease) { return settings_restorer_.unrestored_text(lease); });
  leases_.set_on_unleased_process([this](const DeviceId& gpu, const lease::ObservedProcess& one) {
    record_unleased_process(gpu, one);
  });
}

void LeaseAdapter::on_snapshot(const Snapshot& snapshot, const QuarantineReason& quarantined) {
  if (!snapshot.driver.initialised) return;
  auto gpus = pool_gpus(snapshot);
  for (lease::PoolGpu& gpu : gpus) {
    if (!gpu.withheld.empty()) continue;
    gpu.text = quarantined(gpu.info.id);
    if (!gpu.text.empty()) gpu.withheld = "quarantined";
  }
  leases_.on_gpus(gpus);
  const TimePoint newest = newest_list_time(snapshot);
  if (std::exchange(newest_list_at_, newest) != newest) leases_.on_processes();
  settings_restorer_.restore_ended();
}

void LeaseAdapter::record_unleased_process(const DeviceId& gpu, const lease::ObservedProcess& one) {
  const auto known = leases_.gpus().gpus().find(gpu);
  events::Event event;
  event.at = loop_.now();
  event.wall = loop_.wall();
  event.device = gpu;
  if (known != leases_.gpus().gpus().end()) event.index = known->second.info.index;
  event.kind = "squatter";
  event.severity = EventSeverity::warn;
  const auto allocator = leases_.gpus().allocator();
  const std::string remedy =
      allocator ? fmt::format("it belongs to no {}", lease::words_of(*allocator).own_job)
                : fmt::format("to lease the GPU: `gpuyard lease adopt --pid {}`", one.pid);
  event.text = fmt::format(
      "PID {} ({}) of UID {} uses the GPU without a lease{}; {}", one.pid, one.command, one.uid,
      one.memory_bytes ? fmt::format(", with {:.1f} GiB", lease::to_gib(*one.memory_bytes)) : "",
      remedy);
  event_log_.add(std::move(event));
}

}  // namespace gpuyard::daemon
