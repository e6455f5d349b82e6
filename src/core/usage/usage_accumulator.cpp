#include "core/usage/usage_accumulator.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace gpuyard::usage {
namespace {

using SystemTime = std::chrono::system_clock::time_point;

// Returns the part of a growth, even over `step`, up to `time`. Differences of such parts add up to
// the whole.
std::int64_t interpolate(std::int64_t growth, Duration time, Duration step) {
  const double share = static_cast<double>(time.count()) / static_cast<double>(step.count());
  return std::llround(static_cast<double>(growth) * share);
}

// The days of use under no lease that stay in memory. A clock that is set back by less adds to the
// days that were counted there.
constexpr std::chrono::days kMaxUnleasedDays{8};

LeaseUsage summary_of(const std::vector<UsageCounters>& of_gpus) {
  LeaseUsage use;
  Duration watched{};
  double busy = 0;
  for (const UsageCounters& counters : of_gpus) {
    use.held = std::max(use.held, counters.held);
    use.unknown += std::max(counters.held - counters.counted, Duration::zero());
    if (counters.counted > Duration::zero() || counters.energy_mj > 0) {
      use.energy_mj = use.energy_mj.value_or(0) + counters.energy_mj;
    }
    use.estimated |= counters.estimated_mj > 0;
    if (counters.peak_bytes) use.peak_bytes = use.peak_bytes.value_or(0) + *counters.peak_bytes;
    watched += counters.watched;
    busy += static_cast<double>(counters.busy_ns);
  }
  if (watched > Duration::zero()) {
    use.mean_utilization_percent = busy / static_cast<double>(watched.count());
  }
  return use;
}

}  // namespace

Day UsageAccumulator::day_of(TimePoint at) const {
  return std::chrono::floor<std::chrono::days>(SystemTime(wall_) + (at - now_));
}

// Calls visit(day, from, to) for the part of from..to in each day.
template <class Visit>
void UsageAccumulator::for_each_day(TimePoint from, TimePoint to, Visit&& visit) const {
  while (from < to) {
    const Day day = day_of(from);
    const TimePoint midnight = now_ + (SystemTime(day + std::chrono::days(1)) - SystemTime(wall_));
    const TimePoint until = std::min(to, midnight);
    visit(day, from, until);
    from = until;
  }
}

void UsageAccumulator::open(const std::vector<LeaseGrant>& found, bool simulated) {
  open_ = true;
  simulated_ = simulated;
  for (const LeaseGrant& grant : found) {
    begin(grant);
    for (auto& [gpu, gpu_usage] : holders_.find(grant.lease)->second.gpus)
      gpu_usage.held_until.reset();
  }
}

// Takes the fence from leases whose rows are all from before fences were stored.
void UsageAccumulator::clear_unrecorded_fences(const std::vector<UsageRow>& rows) {
  std::set<std::string_view> with;
  for (const UsageRow& row : rows) {
    if (row.fence != 0) with.insert(row.lease);
  }
  for (const UsageRow& row : rows) {
    const auto holder = holders_.find(row.lease);
    if (holder != holders_.end() && !with.contains(row.lease)) holder->second.fence = 0;
  }
}

void UsageAccumulator::restore(const std::vector<UsageRow>& rows) {
  struct Over {
    std::uint64_t fence = 0;
    std::uint32_t uid = 0;
    std::map<DeviceId, UsageCounters> gpus = {};
  };
  std::map<std::string, Over> ended;
  clear_unrecorded_fences(rows);
  for (const UsageRow& row : rows) {
    if (row.simulated != simulated_) continue;
    const auto holder = holders_.find(row.lease);
    if (holder != holders_.end() && row.fence != holder->second.fence) continue;  // another lease's
    if (holder == holders_.end()) {
      Over& last = ended[row.lease];
      if (row.fence > last.fence) last = {};
      if (row.fence < last.fence) continue;
      last.fence = row.fence;
      last.uid = row.uid;
      last.gpus[row.gpu].add(row.counters);
    } else {
      holder->second.gpus[row.gpu].days[row.day].counters.add(row.counters);
    }
  }
  for (const auto& [lease, last] : ended) {
    std::vector<UsageCounters> all_counters;
    for (const auto& [gpu, counters] : last.gpus) all_counters.push_back(counters);
    store_ended_usage(lease, last.uid, summary_of(all_counters));
  }
  for (auto& [lease, holder] : holders_) {
    for (auto& [gpu, gpu_usage] : holder.gpus) {
      if (lease.empty() || gpu_usage.held_until) continue;
      gpu_usage.held_until = holder.granted_at + total(gpu_usage).held;
    }
  }
}

void UsageAccumulator::begin(const LeaseGrant& grant) {
  const auto [entry, added] = holders_.try_emplace(grant.lease);
  if (!added) return;
  Holder& holder = entry->second;
  holder.uid = grant.uid;
  holder.fence = grant.fence;
  holder.pod = grant.pod;
  holder.granted_at = grant.granted_at;
  for (const DeviceId& id : grant.gpus) {
    holder.gpus[id].held_until = grant.granted_at;
    Gpu& gpu = gpus_[id];
    gpu.spans.push_back({std::max(grant.granted_at, gpu.spans.back().from), grant.lease});
  }
}

void UsageAccumulator::end(std::string_view lease, TimePoint at) {
  const auto found = holders_.find(lease);
  if (lease.empty() || found == holders_.end() || found->second.ended_at) return;
  found->second.ended_at = std::max(at, found->second.granted_at);
  for (const auto& [id, gpu_usage] : found->second.gpus) {
    Gpu& gpu = gpus_[id];
    if (gpu.spans.back().lease != lease) continue;
    gpu.spans.push_back({std::max(at, gpu.spans.back().from), ""});
  }
}

void UsageAccumulator::record(const UsageSnapshot& readings) {
  if (readings.now >= now_) {
    now_ = readings.now;
    wall_ = readings.wall;
    max_step_ = readings.max_step;
  }
  for (const UsageSample& reading : readings.gpus) {
    Gpu& gpu = gpus_[reading.gpu];
    if (open_ && reading.utilization_percent)
      count_utilization(reading.gpu, gpu, *reading.utilization_percent);
    if (open_ && reading.memory_bytes) update_peak_memory(reading.gpu, gpu, *reading.memory_bytes);
    if (open_) count_unleased(reading.gpu, gpu, reading.energy);
    if (!reading.energy) continue;
    if (!gpu.last_energy) {
      gpu.last_energy = reading.energy;
    } else if (open_) {
      count_energy(reading.gpu, gpu, *reading.energy);
    }
  }
  if (!open_) return;
  close_all();
  for (const std::string& lease : ended_retention_.evict(now_ - kEndedRetention, kMaxEndedLeases)) {
    ended_usage_.erase(lease);
  }
}

void UsageAccumulator::count_energy(const DeviceId& id, Gpu& gpu, const EnergyTotal& now) {
  const EnergyTotal before = *gpu.last_energy;
  if (now.taken <= before.taken || now.energy_mj < before.energy_mj) return;
  auto& spans = gpu.spans;
  const bool shared = spans.size() > 1 && spans[1].from < now.taken;
  const bool roughly = shared && now.taken - before.taken > max_step_;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const TimePoint from = std::max(spans[i].from, before.taken);
    const bool last = i + 1 == spans.size();
    const TimePoint to = last ? now.taken : std::min(spans[i + 1].from, now.taken);
    if (from < to) book(spans[i].lease, id, {from, to, before, now, roughly});
  }
  gpu.last_energy = now;
  while (spans.size() > 1 && spans[1].from <= now.taken) spans.pop_front();
}

void UsageAccumulator::book(const std::string& lease, const DeviceId& gpu,
                            const CounterStep& growth) {
  const Duration step = growth.now.taken - growth.before.taken;
  const std::int64_t energy = growth.now.energy_mj - growth.before.energy_mj;
  const std::int64_t estimated =
      growth.estimated ? energy : growth.now.estimated_mj - growth.before.estimated_mj;
  const std::int64_t unknown =
      std::clamp(growth.now.unknown - growth.before.unknown, Duration::zero(), step).count();
  GpuUsage& gpu_usage = gpu_usage_of(lease, gpu);
  for_each_day(growth.from, growth.to, [&](Day day, TimePoint from, TimePoint to) {
    const auto part = [&](std::int64_t whole) {
      return interpolate(whole, to - growth.before.taken, step) -
             interpolate(whole, from - growth.before.taken, step);
    };
    UsageCounters& counters = gpu_usage.mutable_counters(day);
    counters.energy_mj += part(energy);
    counters.estimated_mj += part(estimated);
    counters.counted += std::max(to - from - Duration(part(unknown)), Duration::zero());
  });
}

// Counts a utilisation for the time right before it was read.
void UsageAccumulator::count_utilization(const DeviceId& id, Gpu& gpu,
                                         const GaugeValue& utilization) {
  const TimePoint taken = utilization.taken;
  if (taken <= gpu.utilization_at) return;
  const TimePoint before = std::exchange(gpu.utilization_at, taken);
  const HoldSpan* const span = span_at(gpu, taken);
  if (span == nullptr) return;
  GpuUsage& gpu_usage = gpu_usage_of(span->lease, id);
  const TimePoint from = std::max(before, span->from);
  if (taken - from <= max_step_) {
    for_each_day(from, taken, [&](Day day, TimePoint begin, TimePoint end) {
      UsageCounters& counters = gpu_usage.mutable_counters(day);
      counters.watched += end - begin;
      counters.busy_ns += utilization.value * (end - begin).count();
    });
  }
  if (utilization.value > 0) {
    gpu_usage.idle_since.reset();
  } else if (!gpu_usage.idle_since || taken - gpu_usage.utilization_at > max_step_) {
    gpu_usage.idle_since = taken;
  }
  gpu_usage.utilization_at = taken;
}

void UsageAccumulator::update_peak_memory(const DeviceId& id, const Gpu& gpu,
                                          const GaugeValue& memory) {
  const HoldSpan* const span = span_at(gpu, memory.taken);
  if (span == nullptr) return;
  DayCounters& day_counters = gpu_usage_of(span->lease, id).days[day_of(memory.taken)];
  if (day_counters.counters.peak_bytes >= std::optional(memory.value)) return;
  day_counters.counters.peak_bytes = memory.value;
  day_counters.changed = true;
}

// Returns the usage of no lease, if the lease is no longer known.
UsageAccumulator::GpuUsage& UsageAccumulator::gpu_usage_of(const std::string& lease,
                                                           const DeviceId& gpu) {
  const auto holder = holders_.find(lease);
  return (holder != holders_.end() ? holder : holders_.find(""))->second.gpus[gpu];
}

const UsageAccumulator::HoldSpan* UsageAccumulator::span_at(const Gpu& gpu, TimePoint at) const {
  const auto after = std::ranges::upper_bound(gpu.spans, at, {}, &HoldSpan::from);
  return after == gpu.spans.begin() ? nullptr : &*std::prev(after);
}

// Adds held time up to the last reading. If readings stop, it follows the clock by max_step_.
void UsageAccumulator::count_held_time(Holder& holder) {
  for (auto& [id, gpu_usage] : holder.gpus) {
    const auto& last = gpus_[id].last_energy;
    const TimePoint read = last ? std::min(last->taken, now_) : TimePoint{};
    const TimePoint until = holder.ended_at.value_or(std::max(read, now_ - max_step_));
    if (!gpu_usage.held_until || until <= *gpu_usage.held_until) continue;
    const auto add = [&](Day day, TimePoint from, TimePoint to) {
      gpu_usage.mutable_counters(day).held += to - from;
    };
    for_each_day(*std::exchange(gpu_usage.held_until, until), until, add);
  }
}

// Adds the time of a GPU under no lease, as count_held_time() does for a lease: also while its
// energy cannot be read, so that the sum says how much of it is not known.
void UsageAccumulator::count_unleased(const DeviceId& id, Gpu& gpu,
                                      const std::optional<EnergyTotal>& read) {
  if (!gpu.unleased_until) {
    const auto& first = gpu.last_energy ? gpu.last_energy : read;
    gpu.unleased_until = first ? std::min(first->taken, now_) : now_;
  }
  const TimePoint until =
      std::max(read ? std::min(read->taken, now_) : TimePoint{}, now_ - max_step_);
  if (until <= *gpu.unleased_until) return;
  const TimePoint since = *std::exchange(gpu.unleased_until, until);
  for (std::size_t i = 0; i < gpu.spans.size(); ++i) {
    const HoldSpan& span = gpu.spans[i];
    if (!span.lease.empty()) continue;
    const bool last = i + 1 == gpu.spans.size();
    const TimePoint from = std::max(span.from, since);
    const TimePoint to = last ? until : std::min(gpu.spans[i + 1].from, until);
    for_each_day(from, to, [&](Day day, TimePoint begin, TimePoint end) {
      gpu_usage_of("", id).mutable_counters(day).held += end - begin;
    });
  }
}

// Returns whether more may still be counted for a lease that is over.
bool UsageAccumulator::needs_final_reading(const std::string& lease, const Holder& holder) const {
  for (const auto& [id, gpu_usage] : holder.gpus) {
    if (!gpu_usage.held_until) return true;
    if (now_ - *holder.ended_at >= kFinalReadingTimeout) continue;
    const auto& spans = gpus_.at(id).spans;
    if (std::ranges::find(spans, lease, &HoldSpan::lease) != spans.end()) return true;
  }
  return false;
}

void UsageAccumulator::close_all() {
  for (auto next = holders_.begin(); next != holders_.end();) {
    const auto entry = next++;
    auto& [lease, holder] = *entry;
    if (lease.empty()) continue;
    count_held_time(holder);
    if (!holder.ended_at || needs_final_reading(lease, holder)) continue;
    close(lease, holder);
    holders_.erase(entry);
  }
}

void UsageAccumulator::close(const std::string& lease, Holder& holder) {
  std::vector<UsageCounters> all_counters;
  for (auto& [id, gpu_usage] : holder.gpus) {
    auto& spans = gpus_[id].spans;
    for (HoldSpan& span : spans) {
      if (span.lease == lease) span.lease.clear();
    }
    const auto same = std::ranges::unique(spans, {}, &HoldSpan::lease);
    spans.erase(same.begin(), same.end());
    // A lease that lasted no time has a row too.
    if (gpu_usage.days.empty()) gpu_usage.mutable_counters(day_of(*holder.ended_at));
    all_counters.push_back(total(gpu_usage));
  }
  const LeaseUsage use = summary_of(all_counters);
  const bool small = use.held < kMinHeldTime && use.energy_mj.value_or(0) < kMinEnergyMj;
  if (small) set_changed(holder, true);
  const std::size_t first = ended_rows_.size();
  append_changed_rows(lease, holder, ended_rows_);
  for (std::size_t i = first; small && i < ended_rows_.size(); ++i) {
    ended_rows_[i].compacted_leases = i == first ? 1 : 0;
  }
  store_ended_usage(lease, holder.uid, use);
}

// Marks all rows as changed, to be saved again, or as saved.
void UsageAccumulator::set_changed(Holder& holder, bool changed) {
  for (auto& [id, gpu_usage] : holder.gpus) {
    for (auto& [day, day_counters] : gpu_usage.days) day_counters.changed = changed;
  }
}

void UsageAccumulator::store_ended_usage(const std::string& lease, std::uint32_t uid,
                                         LeaseUsage use) {
  use.settled = true;
  if (ended_usage_.insert_or_assign(lease, use).second) ended_retention_.add(uid, lease, now_);
}

void UsageAccumulator::append_changed_rows(const std::string& lease, const Holder& holder,
                                           std::vector<UsageRow>& rows) const {
  for (const auto& [id, gpu_usage] : holder.gpus) {
    for (const auto& [day, day_counters] : gpu_usage.days) {
      if (!day_counters.changed) continue;
      UsageRow row{day, lease, id, holder.uid, simulated_, day_counters.counters, holder.fence};
      row.pod = holder.pod;
      rows.push_back(std::move(row));
    }
  }
}

std::set<std::string> UsageAccumulator::leases() const {
  std::set<std::string> all;
  for (const auto& [lease, holder] : holders_) all.insert(lease);
  return all;
}

std::vector<UsageRow> UsageAccumulator::changed_rows() const {
  std::vector<UsageRow> rows;
  for (const auto& [lease, holder] : holders_) append_changed_rows(lease, holder, rows);
  return rows;
}

std::vector<UsageRow> UsageAccumulator::take_changed_rows() {
  std::vector<UsageRow> rows = changed_rows();
  for (auto& [lease, holder] : holders_) set_changed(holder, false);
  // A lease's sum needs all of its days. Of no lease, only days that may still change stay.
  for (auto& [id, gpu_usage] : holders_.find("")->second.gpus) {
    const auto& last = gpus_[id].last_energy;
    const Day oldest = day_of(last ? std::min(last->taken, now_) : now_) - kMaxUnleasedDays;
    std::erase_if(gpu_usage.days, [&](const auto& entry) { return entry.first < oldest; });
  }
  return rows;
}

UsageCounters UsageAccumulator::total(const GpuUsage& gpu_usage) {
  UsageCounters all;
  for (const auto& [day, day_counters] : gpu_usage.days) all.add(day_counters.counters);
  return all;
}

std::optional<Duration> UsageAccumulator::idle_of(const Holder& holder, TimePoint now) const {
  if (holder.ended_at) return std::nullopt;
  bool known = true;
  TimePoint since{};
  for (const auto& [id, gpu_usage] : holder.gpus) {
    const bool watched = now - gpu_usage.utilization_at <= max_step_;
    known = known && watched;
    if (watched && !gpu_usage.idle_since) return Duration::zero();
    if (watched) since = std::max(since, *gpu_usage.idle_since);
  }
  return known ? std::optional(now - since) : std::nullopt;
}

std::optional<LeaseUsage> UsageAccumulator::usage_of(std::string_view lease, TimePoint now) const {
  const auto found = holders_.find(lease);
  if (lease.empty() || found == holders_.end()) {
    const auto ended = ended_usage_.find(lease);
    return ended == ended_usage_.end() ? std::nullopt : std::optional(ended->second);
  }
  const Holder& holder = found->second;
  std::vector<UsageCounters> all_counters;
  for (const auto& [id, gpu_usage] : holder.gpus) all_counters.push_back(total(gpu_usage));
  LeaseUsage use = summary_of(all_counters);
  use.held = holder.ended_at.value_or(now) - holder.granted_at;
  use.idle = idle_of(holder, now);
  return use;
}

}  // namespace gpuyard::usage
