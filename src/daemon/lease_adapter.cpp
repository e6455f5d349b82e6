#include "daemon/lease_adapter.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <boost/describe.hpp>
#include <boost/mp11.hpp>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/control_adapter.h"
#include "daemon/serve.h"
#include "gpu/device/device.h"
#include "gpu/device/fitness.h"
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
      telemetry_(telemetry),
      event_log_(event_log),
      observer_(loop, query_worker, telemetry,
                {.proc_root = config.processes.proc_root,
                 .recorded = recorded,
                 .quota_owner = [all = std::make_shared<const processes::SubordinateUids>(uids)](
                                    std::uint32_t uid) { return all->owner_of(uid); },
                 .marks = std::move(marks)}),
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
  leases_.on_unleased_process([this](const DeviceId& gpu, const lease::ObservedProcess& one) {
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
  event.text = fmt::format(
      "PID {} ({}) of UID {} uses the GPU without a lease{}; to lease the GPU: "
      "`gpuyard lease adopt --pid {}`",
      one.pid, one.command, one.uid,
      one.memory_bytes ? fmt::format(", with {:.1f} GiB", lease::to_gib(*one.memory_bytes)) : "",
      one.pid);
  event_log_.add(std::move(event));
}

namespace {

std::optional<std::int64_t> integer_reading(const DeviceState& device, Metric metric) {
  const std::int64_t* const value = device.sample.number(metric);
  return value != nullptr ? std::optional(*value) : std::nullopt;
}

// The utilisation, or the power where the board has no utilisation, from which on a GPU is busy.
// An idle GPU is at 0 % but for what monitors ask of it, and draws far less than half of its
// default limit, also at its highest clocks.
constexpr std::int64_t kBusyPercent = 10;
constexpr std::int64_t kBusyLimitDivisor = 2;

// Returns the newest reading of the GPU's activity. Returns nothing if a listed process accounts
// for it, or if no reading says how busy the GPU is.
std::optional<lease::Activity> activity_of(const DeviceState& device) {
  const auto& list = device.sample.processes();
  const auto* const processes = list ? list->processes() : nullptr;
  if (device.condition != DeviceCondition::responsive) return std::nullopt;
  if (processes != nullptr && !processes->empty()) return std::nullopt;
  if (const auto percent = integer_reading(device, Metric::utilization_gpu)) {
    return lease::Activity{device.sample.find(Metric::utilization_gpu)->taken,
                           *percent >= kBusyPercent, fmt::format("{} % utilisation", *percent)};
  }
  const auto power = integer_reading(device, Metric::power_draw);
  const auto limit = integer_reading(device, Metric::power_limit_default);
  if (!power || !limit || *limit <= 0) return std::nullopt;
  return lease::Activity{device.sample.find(Metric::power_draw)->taken,
                         *power >= *limit / kBusyLimitDivisor, fmt::format("{} W", *power / 1000)};
}

bool is_unsupported(const DeviceState& device, Metric metric) {
  const Reading* const reading = device.sample.find(metric);
  const Missing* const missing = reading != nullptr ? reading->missing() : nullptr;
  return missing != nullptr && missing->reason == MissingReason::not_supported;
}

lease::PoolGpu pool_gpu(const DeviceState& device, std::optional<unsigned> clique) {
  lease::PoolGpu gpu;
  gpu.info = device.info;
  gpu.clique = clique;
  Fitness fitness = fitness_of(device);
  switch (fitness.verdict) {
    case Verdict::good:
      break;
    // Its holder keeps it, and it is granted again when the verdict changes.
    case Verdict::bad:
    case Verdict::unknown:
      gpu.withheld = std::move(fitness.word);
      gpu.text = std::move(fitness.why);
  }
  gpu.reports_memory =
      !is_unsupported(device, Metric::memory_total) && !is_unsupported(device, Metric::memory_free);
  const auto& list = device.sample.processes();
  const auto* const no_list = list ? std::get_if<Missing>(&list->value) : nullptr;
  gpu.lists_processes = no_list == nullptr || no_list->reason != MissingReason::not_supported;
  gpu.activity = activity_of(device);
  gpu.total_bytes = integer_reading(device, Metric::memory_total);
  gpu.free_bytes = integer_reading(device, Metric::memory_free);
  gpu.graphics_bytes = drawing_bytes(device);
  gpu.temperature_c = integer_reading(device, Metric::temperature_core);
  const auto node = integer_reading(device, Metric::numa_node);
  if (node && *node >= 0) gpu.numa_node = static_cast<unsigned>(*node);
  return gpu;
}

}  // namespace

std::vector<lease::PoolGpu> pool_gpus(const Snapshot& snapshot) {
  std::vector<DeviceInfo> infos;
  for (const DeviceState& device : snapshot.devices) infos.push_back(device.info);
  const auto cliques = nvlink_cliques(infos);
  std::vector<lease::PoolGpu> gpus;
  for (std::size_t i = 0; i < infos.size(); ++i) {
    gpus.push_back(pool_gpu(snapshot.devices[i], cliques[i]));
  }
  return gpus;
}

std::int64_t drawing_bytes(const DeviceState& device) {
  const auto& list = device.sample.processes();
  const auto* processes = list ? list->processes() : nullptr;
  std::int64_t bytes = 0;
  if (processes == nullptr) return bytes;
  for (const GpuProcess& process : *processes) {
    if (process.kind == ProcessKind::graphics) bytes += process.memory_bytes.value_or(0);
  }
  const auto total = integer_reading(device, Metric::memory_total);
  return std::min(bytes, total.value_or(0) / lease::GpuPool::kIdleMemoryDivisor);
}

namespace {

template <typename Told>
void for_each_managed_setting(const control::SettingController& control, const DeviceId& gpu,
                              Told on_setting) {
  boost::mp11::mp_for_each<boost::describe::describe_enumerators<SettingKind>>([&](auto kind) {
    if (const control::ManagedSetting* setting = control.managed_setting(gpu, kind.value))
      on_setting(*setting);
  });
}

}  // namespace

// Returns the owners of claims whose lease is not held any more.
std::set<std::string> LeaseSettingsRestorer::orphaned_owners(const DeviceId& gpu) const {
  std::set<std::string> found;
  for_each_managed_setting(control_, gpu, [&](const control::ManagedSetting& setting) {
    for (const control::SettingClaim& claim : setting.claims) {
      const std::string_view id = lease::lease_of(claim.owner);
      if (id.empty()) continue;
      const lease::Lease* lease = leases_.find(id);
      if (lease == nullptr || lease->state != lease::LeaseState::held) found.insert(claim.owner);
    }
  });
  return found;
}

// If control is switched off, it restores nothing, and a drain does not wait for it.
std::optional<std::string> LeaseSettingsRestorer::unrestored_text(const lease::Lease& lease) const {
  if (!control_.policy().enabled) return std::nullopt;
  if (!control_.is_loaded()) return "the settings of its GPUs have not been read yet";
  const std::string owner = lease::owner_of(lease.id);
  std::optional<std::string> left;
  for (const DeviceId& gpu : lease.gpus) {
    if (leases_.gpus().is_lost(gpu)) continue;
    for_each_managed_setting(control_, gpu, [&](const control::ManagedSetting& setting) {
      if (control::find_claim(setting, owner) == nullptr) return;
      left = fmt::format("the {} of {} has not been restored yet", display_name(setting.kind), gpu);
    });
  }
  return left;
}

void LeaseSettingsRestorer::restore_ended() {
  control_.refuse_unauthorized();
  if (loop_.now() < not_before_ || leases_.grant_error()) return;
  for (const auto& [gpu, slot] : leases_.gpus().slots()) {
    for (const std::string& owner : orphaned_owners(gpu)) restore(gpu, owner);
  }
}

void LeaseSettingsRestorer::restore(const DeviceId& gpu, const std::string& owner) {
  if (!pending_.emplace(gpu, owner).second) return;
  control::ChangeRequester requester;
  requester.owner = owner;
  requester.received = loop_.now();
  if (const lease::Lease* lease = leases_.find(lease::lease_of(owner))) {
    requester.quota_owner = fmt::format("uid {}", leases_.quota_owner(lease->uid));
  }
  control_.submit({requester, {gpu}, control::Restore{}},
                  lifetime_.guard([this, gpu, owner](const auto& changes) {
                    pending_.erase({gpu, owner});
                    const auto why = first_error_of(changes);
                    if (!why) return;
                    not_before_ = loop_.now() + kRetryDelay;
                    log::warning("settings of {} by {} have not been restored yet: {}", gpu, owner,
                                 why->text());
                  }));
}

}  // namespace gpuyard::daemon
