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

lease::Policy policy_of(const config::Config& whole, const processes::SubordinateUids& uids) {
  const config::Config::Lease& config = whole.lease;
  lease::Policy policy;
  using Mode = config::Config::Lease::Mode;
  policy.mode = config.mode == Mode::grant     ? lease::Mode::grant
                : config.mode == Mode::observe ? lease::Mode::observe
                                               : lease::Mode::automatic;
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

LeaseAdapter::LeaseAdapter(Loop& loop, Worker& query, telemetry::Telemetry& telemetry,
                           control::Control& control, events::Journal& journal,
                           store::StateStore& state, const config::Config& config,
                           const processes::SubordinateUids& uids, bool recorded,
                           std::shared_ptr<processes::MarkClient> marks)
    : loop_(loop),
      telemetry_(telemetry),
      journal_(journal),
      observer_(loop, query, telemetry,
                {.proc_root = config.processes.proc_root,
                 .recorded = recorded,
                 .person = [all = std::make_shared<const processes::SubordinateUids>(uids)](
                               std::uint32_t uid) { return all->person(uid); },
                 .marks = std::move(marks)}),
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

void LeaseAdapter::on_snapshot(const Snapshot& snapshot, const Quarantined& quarantined) {
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

void LeaseAdapter::tell_of_squatter(const DeviceId& gpu, const lease::Seen& one) {
  const auto known = leases_.gpus().gpus().find(gpu);
  events::Event event;
  event.at = loop_.now();
  event.wall = loop_.wall();
  event.device = gpu;
  if (known != leases_.gpus().gpus().end()) event.index = known->second.info.index;
  event.kind = "squatter";
  event.severity = Severity::warn;
  event.text = fmt::format(
      "PID {} ({}) of UID {} uses the GPU without a lease{}; to lease the GPU: "
      "`gpuyard lease adopt --pid {}`",
      one.pid, one.command, one.uid,
      one.memory_bytes ? fmt::format(", with {:.1f} GiB", lease::in_gib(*one.memory_bytes)) : "",
      one.pid);
  journal_.add(std::move(event));
}

namespace {

std::optional<std::int64_t> number(const DeviceState& device, Metric metric) {
  const std::int64_t* const value = device.sample.number(metric);
  return value != nullptr ? std::optional(*value) : std::nullopt;
}

// The utilisation, or the power where the board tells no utilisation, from which on a GPU is busy.
// An idle GPU is at 0 % but for what monitors ask of it, and draws far less than half of its
// default limit, also at its highest clocks.
constexpr std::int64_t kBusyPercent = 10;
constexpr std::int64_t kBusyPartOfLimit = 2;

// Returns the newest reading of the GPU's activity. Returns nothing if a listed process accounts
// for it, or if nothing tells how busy the GPU is.
std::optional<lease::Activity> activity_of(const DeviceState& device) {
  const auto& list = device.sample.processes();
  const auto* const processes = list ? list->processes() : nullptr;
  if (device.condition != DeviceCondition::responsive) return std::nullopt;
  if (processes != nullptr && !processes->empty()) return std::nullopt;
  if (const auto percent = number(device, Metric::utilization_gpu)) {
    return lease::Activity{device.sample.find(Metric::utilization_gpu)->taken,
                           *percent >= kBusyPercent, fmt::format("{} % utilisation", *percent)};
  }
  const auto power = number(device, Metric::power_draw);
  const auto limit = number(device, Metric::power_limit_default);
  if (!power || !limit || *limit <= 0) return std::nullopt;
  return lease::Activity{device.sample.find(Metric::power_draw)->taken,
                         *power >= *limit / kBusyPartOfLimit, fmt::format("{} W", *power / 1000)};
}

bool lacks(const DeviceState& device, Metric metric) {
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
    // Its holder keeps it, and it is handed out again when the verdict changes.
    case Verdict::bad:
    case Verdict::unknown:
      gpu.withheld = std::move(fitness.word);
      gpu.text = std::move(fitness.why);
  }
  gpu.reports_memory = !lacks(device, Metric::memory_total) && !lacks(device, Metric::memory_free);
  const auto& list = device.sample.processes();
  const auto* const no_list = list ? std::get_if<Missing>(&list->value) : nullptr;
  gpu.lists_processes = no_list == nullptr || no_list->reason != MissingReason::not_supported;
  gpu.activity = activity_of(device);
  gpu.total_bytes = number(device, Metric::memory_total);
  gpu.free_bytes = number(device, Metric::memory_free);
  gpu.drawing_bytes = drawing_bytes(device);
  gpu.temperature_c = number(device, Metric::temperature_core);
  const auto node = number(device, Metric::numa_node);
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
  const auto total = number(device, Metric::memory_total);
  return std::min(bytes, total.value_or(0) / lease::GpuPool::kIdlePart);
}

namespace {

template <typename Told>
void each_holding(const control::Control& control, const DeviceId& gpu, Told told) {
  boost::mp11::mp_for_each<boost::describe::describe_enumerators<SettingKind>>([&](auto kind) {
    if (const control::Holding* holding = control.holding(gpu, kind.value)) told(*holding);
  });
}

}  // namespace

// Returns the owners of claims whose lease is not held any more.
std::set<std::string> LeaseSettingsRestorer::orphans(const DeviceId& gpu) const {
  std::set<std::string> found;
  each_holding(control_, gpu, [&](const control::Holding& holding) {
    for (const control::Claim& claim : holding.claims) {
      const std::string_view id = lease::lease_of(claim.owner);
      if (id.empty()) continue;
      const lease::Lease* lease = leases_.find(id);
      if (lease == nullptr || lease->state != lease::State::held) found.insert(claim.owner);
    }
  });
  return found;
}

// If control is switched off, it restores nothing, and a drain does not wait for it.
std::optional<std::string> LeaseSettingsRestorer::left(const lease::Lease& lease) const {
  if (!control_.policy().enabled) return std::nullopt;
  if (!control_.loaded()) return "the settings of its GPUs have not been read yet";
  const std::string owner = lease::owner_of(lease.id);
  std::optional<std::string> left;
  for (const DeviceId& gpu : lease.gpus) {
    if (leases_.gpus().lost(gpu)) continue;
    each_holding(control_, gpu, [&](const control::Holding& holding) {
      if (control::find_claim(holding, owner) == nullptr) return;
      left = fmt::format("the {} of {} has not been restored yet", words_of(holding.kind), gpu);
    });
  }
  return left;
}

void LeaseSettingsRestorer::look() {
  control_.drop_lapsed();
  if (loop_.now() < not_before_ || leases_.closed()) return;
  for (const auto& [gpu, slot] : leases_.gpus().slots()) {
    for (const std::string& owner : orphans(gpu)) put_back(gpu, owner);
  }
}

void LeaseSettingsRestorer::put_back(const DeviceId& gpu, const std::string& owner) {
  if (!under_way_.emplace(gpu, owner).second) return;
  control::Asker asker;
  asker.owner = owner;
  asker.received = loop_.now();
  if (const lease::Lease* lease = leases_.find(lease::lease_of(owner))) {
    asker.person = fmt::format("uid {}", leases_.person(lease->uid));
  }
  control_.ask({asker, {gpu}, control::Restore{}}, here_.guard([this, gpu,
                                                                owner](const auto& changes) {
    under_way_.erase({gpu, owner});
    const auto why = error_of(changes);
    if (!why) return;
    not_before_ = loop_.now() + kAgain;
    log::warning("settings of {} by {} have not been restored yet: {}", gpu, owner, why->text());
  }));
}

}  // namespace gpuyard::daemon
