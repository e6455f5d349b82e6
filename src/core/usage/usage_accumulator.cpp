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

// How many days of use under no lease stay in memory. A clock that is set back by less adds to the
// days that were counted there.
constexpr std::chrono::days kMaxUnleasedDays{8};

LeaseUsage summary_of(const std::vector<UsageCounters>& of_gpus) {
  LeaseUsage use;
  Duration watched{};
  double busy = 0;
  for (const UsageCounters& tally : of_gpus) {
    use.held = std::max(use.held, tally.held);
    use.unknown += std::max(tally.held - tally.counted, Duration::zero());
    if (tally.counted > Duration::zero() || tally.energy_mj > 0) {
      use.energy_mj = use.energy_mj.value_or(0) + tally.energy_mj;
    }
    use.estimated |= tally.estimated_mj > 0;
    if (tally.peak_bytes) use.peak_bytes = use.peak_bytes.value_or(0) + *tally.peak_bytes;
    watched += tally.watched;
    busy += static_cast<double>(tally.busy_ns);
  }
  if (watched > Duration::zero()) {
    use.mean_utilization_percent = busy / static_cast<double>(watched.count());
  }
  return use;
}

}  // namespace

Day UsageAccumulator::day_of(TimePoint then) const {
  return std::chrono::floor<std::chrono::days>(SystemTime(wall_) + (then - now_));
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
  for (const LeaseGrant& holding : found) {
    begin(holding);
    for (auto& [gpu, share] : holders_.find(holding.lease)->second.gpus) share.held_until.reset();
  }
}

// Takes the fence from leases whose rows are all from before fences were kept.
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
  std::map<std::string, Over> over;
  clear_unrecorded_fences(rows);
  for (const UsageRow& row : rows) {
    if (row.simulated != simulated_) continue;
    const auto holder = holders_.find(row.lease);
    if (holder != holders_.end() && row.fence != holder->second.fence) continue;  // another lease's
    if (holder == holders_.end()) {
      Over& last = over[row.lease];
      if (row.fence > last.fence) last = {};
      if (row.fence < last.fence) continue;
      last.fence = row.fence;
      last.uid = row.uid;
      last.gpus[row.gpu].add(row.counters);
    } else {
      holder->second.gpus[row.gpu].days[row.day].counters.add(row.counters);
    }
  }
  for (const auto& [lease, last] : over) {
    std::vector<UsageCounters> tallies;
    for (const auto& [gpu, tally] : last.gpus) tallies.push_back(tally);
    store_ended_usage(lease, last.uid, summary_of(tallies));
  }
  for (auto& [lease, holder] : holders_) {
    for (auto& [gpu, share] : holder.gpus) {
      if (lease.empty() || share.held_until) continue;
      share.held_until = holder.granted_at + total(share).held;
    }
  }
}

void UsageAccumulator::begin(const LeaseGrant& holding) {
  const auto [place, added] = holders_.try_emplace(holding.lease);
  if (!added) return;
  Holder& holder = place->second;
  holder.uid = holding.uid;
  holder.fence = holding.fence;
  holder.granted_at = holding.granted_at;
  for (const DeviceId& id : holding.gpus) {
    holder.gpus[id].held_until = holding.granted_at;
    Gpu& gpu = gpus_[id];
    gpu.spans.push_back({std::max(holding.granted_at, gpu.spans.back().from), holding.lease});
  }
}

void UsageAccumulator::end(std::string_view lease, TimePoint at) {
  const auto found = holders_.find(lease);
  if (lease.empty() || found == holders_.end() || found->second.ended_at) return;
  found->second.ended_at = std::max(at, found->second.granted_at);
  for (const auto& [id, share] : found->second.gpus) {
    Gpu& gpu = gpus_[id];
    if (gpu.spans.back().lease != lease) continue;
    gpu.spans.push_back({std::max(at, gpu.spans.back().from), ""});
  }
}

void UsageAccumulator::record(const UsageSnapshot& readings) {
  if (readings.now >= now_) {
    now_ = readings.now;
    wall_ = readings.wall;
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
  auto& stretches = gpu.spans;
  const bool shared = stretches.size() > 1 && stretches[1].from < now.taken;
  const bool roughly = shared && now.taken - before.taken > kMaxStep;
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    const TimePoint from = std::max(stretches[i].from, before.taken);
    const bool last = i + 1 == stretches.size();
    const TimePoint to = last ? now.taken : std::min(stretches[i + 1].from, now.taken);
    if (from < to) book(stretches[i].lease, id, {from, to, before, now, roughly});
  }
  gpu.last_energy = now;
  while (stretches.size() > 1 && stretches[1].from <= now.taken) stretches.pop_front();
}

void UsageAccumulator::book(const std::string& lease, const DeviceId& gpu,
                            const CounterStep& growth) {
  const Duration step = growth.now.taken - growth.before.taken;
  const std::int64_t energy = growth.now.energy_mj - growth.before.energy_mj;
  const std::int64_t estimated =
      growth.estimated ? energy : growth.now.estimated_mj - growth.before.estimated_mj;
  const std::int64_t unknown =
      std::clamp(growth.now.unknown - growth.before.unknown, Duration::zero(), step).count();
  GpuUsage& share = gpu_usage_of(lease, gpu);
  for_each_day(growth.from, growth.to, [&](Day day, TimePoint from, TimePoint to) {
    const auto part = [&](std::int64_t whole) {
      return interpolate(whole, to - growth.before.taken, step) -
             interpolate(whole, from - growth.before.taken, step);
    };
    UsageCounters& tally = share.mutable_counters(day);
    tally.energy_mj += part(energy);
    tally.estimated_mj += part(estimated);
    tally.counted += std::max(to - from - Duration(part(unknown)), Duration::zero());
  });
}

// Counts a utilisation for the time right before it was read.
void UsageAccumulator::count_utilization(const DeviceId& id, Gpu& gpu,
                                         const GaugeValue& utilization) {
  const TimePoint taken = utilization.taken;
  if (taken <= gpu.utilization_at) return;
  const TimePoint before = std::exchange(gpu.utilization_at, taken);
  const HoldSpan* const stretch = span_at(gpu, taken);
  if (stretch == nullptr) return;
  GpuUsage& share = gpu_usage_of(stretch->lease, id);
  const TimePoint from = std::max(before, stretch->from);
  if (taken - from <= kMaxStep) {
    for_each_day(from, taken, [&](Day day, TimePoint begin, TimePoint end) {
      UsageCounters& tally = share.mutable_counters(day);
      tally.watched += end - begin;
      tally.busy_ns += utilization.value * (end - begin).count();
    });
  }
  if (utilization.value > 0) {
    share.idle_since.reset();
  } else if (!share.idle_since || taken - share.utilization_at > kMaxStep) {
    share.idle_since = taken;
  }
  share.utilization_at = taken;
}

void UsageAccumulator::update_peak_memory(const DeviceId& id, const Gpu& gpu,
                                          const GaugeValue& memory) {
  const HoldSpan* const stretch = span_at(gpu, memory.taken);
  if (stretch == nullptr) return;
  DayCounters& line = gpu_usage_of(stretch->lease, id).days[day_of(memory.taken)];
  if (line.counters.peak_bytes >= std::optional(memory.value)) return;
  line.counters.peak_bytes = memory.value;
  line.changed = true;
}

// Returns the share of no lease, if the lease is not known any more.
UsageAccumulator::GpuUsage& UsageAccumulator::gpu_usage_of(const std::string& lease,
                                                           const DeviceId& gpu) {
  const auto holder = holders_.find(lease);
  return (holder != holders_.end() ? holder : holders_.find(""))->second.gpus[gpu];
}

const UsageAccumulator::HoldSpan* UsageAccumulator::span_at(const Gpu& gpu, TimePoint then) const {
  const auto after = std::ranges::upper_bound(gpu.spans, then, {}, &HoldSpan::from);
  return after == gpu.spans.begin() ? nullptr : &*std::prev(after);
}

// Adds held time up to the last reading. If readings stop, it follows the clock by kMaxStep.
void UsageAccumulator::count_held_time(Holder& holder) {
  for (auto& [id, share] : holder.gpus) {
    const auto& last = gpus_[id].last_energy;
    const TimePoint read = last ? std::min(last->taken, now_) : TimePoint{};
    const TimePoint until = holder.ended_at.value_or(std::max(read, now_ - kMaxStep));
    if (!share.held_until || until <= *share.held_until) continue;
    const auto add = [&](Day day, TimePoint from, TimePoint to) {
      share.mutable_counters(day).held += to - from;
    };
    for_each_day(*std::exchange(share.held_until, until), until, add);
  }
}

// Adds the time of a GPU under no lease, as hold() does for a lease: also while its energy cannot
// be read, so that the sum says how much of it is not known.
void UsageAccumulator::count_unleased(const DeviceId& id, Gpu& gpu,
                                      const std::optional<EnergyTotal>& read) {
  if (!gpu.unleased_until) {
    const auto& first = gpu.last_energy ? gpu.last_energy : read;
    gpu.unleased_until = first ? std::min(first->taken, now_) : now_;
  }
  const TimePoint until =
      std::max(read ? std::min(read->taken, now_) : TimePoint{}, now_ - kMaxStep);
  if (until <= *gpu.unleased_until) return;
  const TimePoint since = *std::exchange(gpu.unleased_until, until);
  for (std::size_t i = 0; i < gpu.spans.size(); ++i) {
    const HoldSpan& stretch = gpu.spans[i];
    if (!stretch.lease.empty()) continue;
    const bool last = i + 1 == gpu.spans.size();
    const TimePoint from = std::max(stretch.from, since);
    const TimePoint to = last ? until : std::min(gpu.spans[i + 1].from, until);
    for_each_day(from, to, [&](Day day, TimePoint begin, TimePoint end) {
      gpu_usage_of("", id).mutable_counters(day).held += end - begin;
    });
  }
}

// Returns whether more may still be counted for a lease that is over.
bool UsageAccumulator::needs_final_reading(const std::string& lease, const Holder& holder) const {
  for (const auto& [id, share] : holder.gpus) {
    if (!share.held_until) return true;
    if (now_ - *holder.ended_at >= kFinalReadingTimeout) continue;
    const auto& stretches = gpus_.at(id).spans;
    if (std::ranges::find(stretches, lease, &HoldSpan::lease) != stretches.end()) return true;
  }
  return false;
}

void UsageAccumulator::close_all() {
  for (auto next = holders_.begin(); next != holders_.end();) {
    const auto place = next++;
    auto& [lease, holder] = *place;
    if (lease.empty()) continue;
    count_held_time(holder);
    if (!holder.ended_at || needs_final_reading(lease, holder)) continue;
    close(lease, holder);
    holders_.erase(place);
  }
}

void UsageAccumulator::close(const std::string& lease, Holder& holder) {
  std::vector<UsageCounters> tallies;
  for (auto& [id, share] : holder.gpus) {
    auto& stretches = gpus_[id].spans;
    for (HoldSpan& stretch : stretches) {
      if (stretch.lease == lease) stretch.lease.clear();
    }
    const auto same = std::ranges::unique(stretches, {}, &HoldSpan::lease);
    stretches.erase(same.begin(), same.end());
    // A lease that lasted no time has a row too.
    if (share.days.empty()) share.mutable_counters(day_of(*holder.ended_at));
    tallies.push_back(total(share));
  }
  const LeaseUsage use = summary_of(tallies);
  const bool small = use.held < kMinHeldTime && use.energy_mj.value_or(0) < kMinEnergyMj;
  if (small) set_changed(holder, true);
  const std::size_t first = ended_rows_.size();
  append_changed_rows(lease, holder, ended_rows_);
  for (std::size_t i = first; small && i < ended_rows_.size(); ++i) {
    ended_rows_[i].compacted_leases = i == first ? 1 : 0;
  }
  store_ended_usage(lease, holder.uid, use);
}

// Marks all rows as changed, to be kept again, or as kept.
void UsageAccumulator::set_changed(Holder& holder, bool changed) {
  for (auto& [id, share] : holder.gpus) {
    for (auto& [day, line] : share.days) line.changed = changed;
  }
}

void UsageAccumulator::store_ended_usage(const std::string& lease, std::uint32_t uid,
                                         LeaseUsage use) {
  use.settled = true;
  if (ended_usage_.insert_or_assign(lease, use).second) ended_retention_.add(uid, lease, now_);
}

void UsageAccumulator::append_changed_rows(const std::string& lease, const Holder& holder,
                                           std::vector<UsageRow>& rows) const {
  for (const auto& [id, share] : holder.gpus) {
    for (const auto& [day, line] : share.days) {
      if (!line.changed) continue;
      rows.push_back({day, lease, id, holder.uid, simulated_, line.counters, holder.fence});
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
  for (auto& [id, share] : holders_.find("")->second.gpus) {
    const auto& last = gpus_[id].last_energy;
    const Day oldest = day_of(last ? std::min(last->taken, now_) : now_) - kMaxUnleasedDays;
    std::erase_if(share.days, [&](const auto& line) { return line.first < oldest; });
  }
  return rows;
}

UsageCounters UsageAccumulator::total(const GpuUsage& share) {
  UsageCounters all;
  for (const auto& [day, line] : share.days) all.add(line.counters);
  return all;
}

std::optional<Duration> UsageAccumulator::idle_of(const Holder& holder, TimePoint now) {
  if (holder.ended_at) return std::nullopt;
  bool known = true;
  TimePoint since{};
  for (const auto& [id, share] : holder.gpus) {
    const bool watched = now - share.utilization_at <= kMaxStep;
    known = known && watched;
    if (watched && !share.idle_since) return Duration::zero();
    if (watched) since = std::max(since, *share.idle_since);
  }
  return known ? std::optional(now - since) : std::nullopt;
}

std::optional<LeaseUsage> UsageAccumulator::usage_of(std::string_view lease, TimePoint now) const {
  const auto found = holders_.find(lease);
  if (lease.empty() || found == holders_.end()) {
    const auto over = ended_usage_.find(lease);
    return over == ended_usage_.end() ? std::nullopt : std::optional(over->second);
  }
  const Holder& holder = found->second;
  std::vector<UsageCounters> tallies;
  for (const auto& [id, share] : holder.gpus) tallies.push_back(total(share));
  LeaseUsage use = summary_of(tallies);
  use.held = holder.ended_at.value_or(now) - holder.granted_at;
  use.idle = idle_of(holder, now);
  return use;
}

}  // namespace gpuyard::usage
