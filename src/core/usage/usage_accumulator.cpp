#include "core/usage/usage_accumulator.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace gpuyard::usage {
namespace {

using SystemTime = std::chrono::system_clock::time_point;

// Returns the part of a growth, even over `step`, up to `time`. Differences of such parts add up to
// the whole.
std::int64_t grown(std::int64_t growth, Duration time, Duration step) {
  const double share = static_cast<double>(time.count()) / static_cast<double>(step.count());
  return std::llround(static_cast<double>(growth) * share);
}

// How many days of use under no lease stay in memory. A clock that is set back by less adds to the
// days that were counted there.
constexpr std::chrono::days kDaysOfNobody{8};

Use summary_of(const std::vector<Tally>& of_gpus) {
  Use use;
  Duration watched{};
  double busy = 0;
  for (const Tally& tally : of_gpus) {
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
void UsageAccumulator::each_day(TimePoint from, TimePoint to, Visit&& visit) const {
  while (from < to) {
    const Day day = day_of(from);
    const TimePoint midnight = now_ + (SystemTime(day + std::chrono::days(1)) - SystemTime(wall_));
    const TimePoint until = std::min(to, midnight);
    visit(day, from, until);
    from = until;
  }
}

void UsageAccumulator::open(const std::vector<Holding>& found, bool simulated) {
  open_ = true;
  simulated_ = simulated;
  for (const Holding& holding : found) {
    begin(holding);
    for (auto& [gpu, share] : holders_.find(holding.lease)->second.shares) share.held_until.reset();
  }
}

// Takes the fence from leases whose rows are all from before fences were kept.
void UsageAccumulator::go_on_without_fences(const std::vector<UseRow>& rows) {
  std::set<std::string_view> with;
  for (const UseRow& row : rows) {
    if (row.fence != 0) with.insert(row.lease);
  }
  for (const UseRow& row : rows) {
    const auto holder = holders_.find(row.lease);
    if (holder != holders_.end() && !with.contains(row.lease)) holder->second.fence = 0;
  }
}

void UsageAccumulator::restore(const std::vector<UseRow>& rows) {
  struct Over {
    std::uint64_t fence = 0;
    std::uint32_t uid = 0;
    std::map<DeviceId, Tally> gpus = {};
  };
  std::map<std::string, Over> over;
  go_on_without_fences(rows);
  for (const UseRow& row : rows) {
    if (row.simulated != simulated_) continue;
    const auto holder = holders_.find(row.lease);
    if (holder != holders_.end() && row.fence != holder->second.fence) continue;  // another lease's
    if (holder == holders_.end()) {
      Over& last = over[row.lease];
      if (row.fence > last.fence) last = {};
      if (row.fence < last.fence) continue;
      last.fence = row.fence;
      last.uid = row.uid;
      last.gpus[row.gpu].add(row.tally);
    } else {
      holder->second.shares[row.gpu].days[row.day].tally.add(row.tally);
    }
  }
  for (const auto& [lease, last] : over) {
    std::vector<Tally> tallies;
    for (const auto& [gpu, tally] : last.gpus) tallies.push_back(tally);
    remember(lease, last.uid, summary_of(tallies));
  }
  for (auto& [lease, holder] : holders_) {
    for (auto& [gpu, share] : holder.shares) {
      if (lease.empty() || share.held_until) continue;
      share.held_until = holder.granted + total(share).held;
    }
  }
}

void UsageAccumulator::begin(const Holding& holding) {
  const auto [place, added] = holders_.try_emplace(holding.lease);
  if (!added) return;
  Holder& holder = place->second;
  holder.uid = holding.uid;
  holder.fence = holding.fence;
  holder.granted = holding.granted;
  for (const DeviceId& id : holding.gpus) {
    holder.shares[id].held_until = holding.granted;
    Gpu& gpu = gpus_[id];
    gpu.stretches.push_back({std::max(holding.granted, gpu.stretches.back().from), holding.lease});
  }
}

void UsageAccumulator::end(std::string_view lease, TimePoint at) {
  const auto found = holders_.find(lease);
  if (lease.empty() || found == holders_.end() || found->second.ended) return;
  found->second.ended = std::max(at, found->second.granted);
  for (const auto& [id, share] : found->second.shares) {
    Gpu& gpu = gpus_[id];
    if (gpu.stretches.back().lease != lease) continue;
    gpu.stretches.push_back({std::max(at, gpu.stretches.back().from), ""});
  }
}

void UsageAccumulator::observe(const UseReadings& readings) {
  if (readings.now >= now_) {
    now_ = readings.now;
    wall_ = readings.wall;
  }
  for (const UsageSample& reading : readings.gpus) {
    Gpu& gpu = gpus_[reading.gpu];
    if (open_ && reading.utilization_percent) watch(reading.gpu, gpu, *reading.utilization_percent);
    if (open_ && reading.memory_bytes) note_memory(reading.gpu, gpu, *reading.memory_bytes);
    if (open_) count_unleased(reading.gpu, gpu, reading.energy);
    if (!reading.energy) continue;
    if (!gpu.last) {
      gpu.last = reading.energy;
    } else if (open_) {
      count(reading.gpu, gpu, *reading.energy);
    }
  }
  if (!open_) return;
  close_all();
  for (const std::string& lease : past_.take_old(now_ - kRemembered, kMostRemembered)) {
    remembered_.erase(lease);
  }
}

void UsageAccumulator::count(const DeviceId& id, Gpu& gpu, const Counted& now) {
  const Counted before = *gpu.last;
  if (now.taken <= before.taken || now.energy_mj < before.energy_mj) return;
  auto& stretches = gpu.stretches;
  const bool shared = stretches.size() > 1 && stretches[1].from < now.taken;
  const bool roughly = shared && now.taken - before.taken > kLongestStep;
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    const TimePoint from = std::max(stretches[i].from, before.taken);
    const bool last = i + 1 == stretches.size();
    const TimePoint to = last ? now.taken : std::min(stretches[i + 1].from, now.taken);
    if (from < to) book(stretches[i].lease, id, {from, to, before, now, roughly});
  }
  gpu.last = now;
  while (stretches.size() > 1 && stretches[1].from <= now.taken) stretches.pop_front();
}

void UsageAccumulator::book(const std::string& lease, const DeviceId& gpu, const Growth& growth) {
  const Duration step = growth.now.taken - growth.before.taken;
  const std::int64_t energy = growth.now.energy_mj - growth.before.energy_mj;
  const std::int64_t estimated =
      growth.roughly ? energy : growth.now.estimated_mj - growth.before.estimated_mj;
  const std::int64_t unknown =
      std::clamp(growth.now.unknown - growth.before.unknown, Duration::zero(), step).count();
  Share& share = share_of(lease, gpu);
  each_day(growth.from, growth.to, [&](Day day, TimePoint from, TimePoint to) {
    const auto part = [&](std::int64_t whole) {
      return grown(whole, to - growth.before.taken, step) -
             grown(whole, from - growth.before.taken, step);
    };
    Tally& tally = share.changing(day);
    tally.energy_mj += part(energy);
    tally.estimated_mj += part(estimated);
    tally.counted += std::max(to - from - Duration(part(unknown)), Duration::zero());
  });
}

// Counts a utilisation for the time right before it was read.
void UsageAccumulator::watch(const DeviceId& id, Gpu& gpu, const Level& utilization) {
  const TimePoint taken = utilization.taken;
  if (taken <= gpu.watched) return;
  const TimePoint before = std::exchange(gpu.watched, taken);
  const Stretch* const stretch = stretch_at(gpu, taken);
  if (stretch == nullptr) return;
  Share& share = share_of(stretch->lease, id);
  const TimePoint from = std::max(before, stretch->from);
  if (taken - from <= kLongestStep) {
    each_day(from, taken, [&](Day day, TimePoint begin, TimePoint end) {
      Tally& tally = share.changing(day);
      tally.watched += end - begin;
      tally.busy_ns += utilization.value * (end - begin).count();
    });
  }
  if (utilization.value > 0) {
    share.idle_since.reset();
  } else if (!share.idle_since || taken - share.watched > kLongestStep) {
    share.idle_since = taken;
  }
  share.watched = taken;
}

void UsageAccumulator::note_memory(const DeviceId& id, const Gpu& gpu, const Level& memory) {
  const Stretch* const stretch = stretch_at(gpu, memory.taken);
  if (stretch == nullptr) return;
  Line& line = share_of(stretch->lease, id).days[day_of(memory.taken)];
  if (line.tally.peak_bytes >= std::optional(memory.value)) return;
  line.tally.peak_bytes = memory.value;
  line.changed = true;
}

// Returns the share of no lease, if the lease is not known any more.
UsageAccumulator::Share& UsageAccumulator::share_of(const std::string& lease, const DeviceId& gpu) {
  const auto holder = holders_.find(lease);
  return (holder != holders_.end() ? holder : holders_.find(""))->second.shares[gpu];
}

const UsageAccumulator::Stretch* UsageAccumulator::stretch_at(const Gpu& gpu,
                                                              TimePoint then) const {
  const auto after = std::ranges::upper_bound(gpu.stretches, then, {}, &Stretch::from);
  return after == gpu.stretches.begin() ? nullptr : &*std::prev(after);
}

// Adds held time up to the last reading. If readings stop, it follows the clock by kLongestStep.
void UsageAccumulator::hold(Holder& holder) {
  for (auto& [id, share] : holder.shares) {
    const auto& last = gpus_[id].last;
    const TimePoint read = last ? std::min(last->taken, now_) : TimePoint{};
    const TimePoint until = holder.ended.value_or(std::max(read, now_ - kLongestStep));
    if (!share.held_until || until <= *share.held_until) continue;
    const auto add = [&](Day day, TimePoint from, TimePoint to) {
      share.changing(day).held += to - from;
    };
    each_day(*std::exchange(share.held_until, until), until, add);
  }
}

// Adds the time of a GPU under no lease, as hold() does for a lease: also while its energy cannot
// be read, so that the sum says how much of it is not known.
void UsageAccumulator::count_unleased(const DeviceId& id, Gpu& gpu,
                                      const std::optional<Counted>& read) {
  if (!gpu.unleased_until) {
    const auto& first = gpu.last ? gpu.last : read;
    gpu.unleased_until = first ? std::min(first->taken, now_) : now_;
  }
  const TimePoint until =
      std::max(read ? std::min(read->taken, now_) : TimePoint{}, now_ - kLongestStep);
  if (until <= *gpu.unleased_until) return;
  const TimePoint since = *std::exchange(gpu.unleased_until, until);
  for (std::size_t i = 0; i < gpu.stretches.size(); ++i) {
    const Stretch& stretch = gpu.stretches[i];
    if (!stretch.lease.empty()) continue;
    const bool last = i + 1 == gpu.stretches.size();
    const TimePoint from = std::max(stretch.from, since);
    const TimePoint to = last ? until : std::min(gpu.stretches[i + 1].from, until);
    each_day(from, to, [&](Day day, TimePoint begin, TimePoint end) {
      share_of("", id).changing(day).held += end - begin;
    });
  }
}

// Returns whether more may still be counted for a lease that is over.
bool UsageAccumulator::waits(const std::string& lease, const Holder& holder) const {
  for (const auto& [id, share] : holder.shares) {
    if (!share.held_until) return true;
    if (now_ - *holder.ended >= kPatience) continue;
    const auto& stretches = gpus_.at(id).stretches;
    if (std::ranges::find(stretches, lease, &Stretch::lease) != stretches.end()) return true;
  }
  return false;
}

void UsageAccumulator::close_all() {
  for (auto next = holders_.begin(); next != holders_.end();) {
    const auto place = next++;
    auto& [lease, holder] = *place;
    if (lease.empty()) continue;
    hold(holder);
    if (!holder.ended || waits(lease, holder)) continue;
    close(lease, holder);
    holders_.erase(place);
  }
}

void UsageAccumulator::close(const std::string& lease, Holder& holder) {
  std::vector<Tally> tallies;
  for (auto& [id, share] : holder.shares) {
    auto& stretches = gpus_[id].stretches;
    for (Stretch& stretch : stretches) {
      if (stretch.lease == lease) stretch.lease.clear();
    }
    const auto same = std::ranges::unique(stretches, {}, &Stretch::lease);
    stretches.erase(same.begin(), same.end());
    // A lease that lasted no time has a row too.
    if (share.days.empty()) share.changing(day_of(*holder.ended));
    tallies.push_back(total(share));
  }
  const Use use = summary_of(tallies);
  const bool small = use.held < kSmallHeld && use.energy_mj.value_or(0) < kSmallEnergyMj;
  if (small) mark_all(holder, true);
  const std::size_t first = over_rows_.size();
  put_changed(lease, holder, over_rows_);
  for (std::size_t i = first; small && i < over_rows_.size(); ++i) {
    over_rows_[i].folds_as = i == first ? 1 : 0;
  }
  remember(lease, holder.uid, use);
}

// Marks all rows as changed, to be kept again, or as kept.
void UsageAccumulator::mark_all(Holder& holder, bool changed) {
  for (auto& [id, share] : holder.shares) {
    for (auto& [day, line] : share.days) line.changed = changed;
  }
}

void UsageAccumulator::remember(const std::string& lease, std::uint32_t uid, Use use) {
  use.settled = true;
  if (remembered_.insert_or_assign(lease, use).second) past_.add(uid, lease, now_);
}

void UsageAccumulator::put_changed(const std::string& lease, const Holder& holder,
                                   std::vector<UseRow>& rows) const {
  for (const auto& [id, share] : holder.shares) {
    for (const auto& [day, line] : share.days) {
      if (!line.changed) continue;
      rows.push_back({day, lease, id, holder.uid, simulated_, line.tally, holder.fence});
    }
  }
}

std::set<std::string> UsageAccumulator::leases() const {
  std::set<std::string> all;
  for (const auto& [lease, holder] : holders_) all.insert(lease);
  return all;
}

std::vector<UseRow> UsageAccumulator::changed() const {
  std::vector<UseRow> rows;
  for (const auto& [lease, holder] : holders_) put_changed(lease, holder, rows);
  return rows;
}

std::vector<UseRow> UsageAccumulator::take_changed() {
  std::vector<UseRow> rows = changed();
  for (auto& [lease, holder] : holders_) mark_all(holder, false);
  // A lease's sum needs all of its days. Of no lease, only days that may still change stay.
  for (auto& [id, share] : holders_.find("")->second.shares) {
    const auto& last = gpus_[id].last;
    const Day oldest = day_of(last ? std::min(last->taken, now_) : now_) - kDaysOfNobody;
    std::erase_if(share.days, [&](const auto& line) { return line.first < oldest; });
  }
  return rows;
}

Tally UsageAccumulator::total(const Share& share) {
  Tally all;
  for (const auto& [day, line] : share.days) all.add(line.tally);
  return all;
}

std::optional<Duration> UsageAccumulator::idle_of(const Holder& holder, TimePoint now) {
  if (holder.ended) return std::nullopt;
  bool known = true;
  TimePoint since{};
  for (const auto& [id, share] : holder.shares) {
    const bool watched = now - share.watched <= kLongestStep;
    known = known && watched;
    if (watched && !share.idle_since) return Duration::zero();
    if (watched) since = std::max(since, *share.idle_since);
  }
  return known ? std::optional(now - since) : std::nullopt;
}

std::optional<Use> UsageAccumulator::of(std::string_view lease, TimePoint now) const {
  const auto found = holders_.find(lease);
  if (lease.empty() || found == holders_.end()) {
    const auto over = remembered_.find(lease);
    return over == remembered_.end() ? std::nullopt : std::optional(over->second);
  }
  const Holder& holder = found->second;
  std::vector<Tally> tallies;
  for (const auto& [id, share] : holder.shares) tallies.push_back(total(share));
  Use use = summary_of(tallies);
  use.held = holder.ended.value_or(now) - holder.granted;
  use.idle = idle_of(holder, now);
  return use;
}

}  // namespace gpuyard::usage
