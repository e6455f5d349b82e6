#include "core/usage/usage_accumulator.h"

#include <array>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace gpuyard::usage {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kStart{hours(100)};
constexpr WallTime kNoon{hours(24 * 20'000 + 12)};

TimePoint at(double second) {
  return kStart + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(second));
}

WallTime wall(TimePoint now) {
  return kNoon + std::chrono::floor<milliseconds>(now - kStart);
}

using Rows = std::map<std::tuple<Day, std::string, DeviceId>, UsageRow>;

// Saves the rows as the storage would.
void keep(UsageAccumulator& count, Rows& rows) {
  for (const auto& some : {count.take_ended_rows(), count.take_changed_rows()}) {
    for (const UsageRow& row : some) rows.insert_or_assign({row.day, row.lease, row.gpu}, row);
  }
}

std::vector<UsageRow> values(const Rows& rows) {
  std::vector<UsageRow> all;
  for (const auto& [key, row] : rows) all.push_back(row);
  return all;
}

UsageCounters sum(const Rows& rows, const std::string& lease) {
  UsageCounters all;
  for (const auto& [key, row] : rows) {
    if (row.lease == lease) all.add(row.counters);
  }
  return all;
}

// One GPU that uses 100 W.
class UsageAccumulatorTest : public ::testing::Test {
 protected:
  UsageAccumulatorTest() {
    count_.open({}, false);
    tick(0);
  }
  static UsageSample reading(double second, std::int64_t percent = 50) {
    const TimePoint taken = at(second);
    return {"GPU-0", EnergyTotal{taken, static_cast<std::int64_t>(second * 100'000), 0, {}},
            GaugeValue{taken, percent}, GaugeValue{taken, static_cast<std::int64_t>(1e9)}};
  }
  void tick(double second, std::int64_t percent = 50) {
    count_.record({at(second), wall(at(second)), {reading(second, percent)}});
  }
  void ticks(double from, double until) {
    for (int i = 0; from + i <= until; ++i) tick(from + i);
  }
  void pass(double second) { count_.record({at(second), wall(at(second))}); }
  LeaseUsage use(double second, const std::string& lease = "a") {
    return count_.usage_of(lease, at(second)).value_or(LeaseUsage{});
  }

  UsageAccumulator count_;
  const LeaseGrant a_{"a", 1000, {"GPU-0"}, at(10.5)};
};

TEST_F(UsageAccumulatorTest, UsageIsCountedFromGrantOn) {
  ticks(1, 10);
  count_.begin(a_);
  ticks(11, 20);
  const LeaseUsage use = this->use(20);
  EXPECT_EQ(use.held, milliseconds(9500));
  EXPECT_EQ(use.energy_mj, 950'000);
  EXPECT_FALSE(use.estimated);
  EXPECT_EQ(use.unknown, seconds(0));
  EXPECT_EQ(use.mean_utilization_percent, 50);
  EXPECT_EQ(use.peak_bytes, 1'000'000'000);
  EXPECT_EQ(use.idle, seconds(0));
}

TEST_F(UsageAccumulatorTest, RowsOfPodsLeaseNameThePod) {
  ticks(1, 10);
  LeaseGrant grant = a_;
  grant.pod = "default/trainer";
  count_.begin(grant);
  ticks(11, 30);
  Rows rows;
  keep(count_, rows);
  for (const UsageRow& row : values(rows)) {
    EXPECT_EQ(row.pod, row.lease == "a" ? "default/trainer" : "") << row.lease;
  }
}

TEST_F(UsageAccumulatorTest, UnleasedUsageGoesToEmptyLeaseRow) {
  ticks(1, 10);
  count_.begin(a_);
  ticks(11, 20);
  count_.end("a", at(20.25));
  ticks(21, 30);
  Rows rows;
  keep(count_, rows);
  EXPECT_EQ(sum(rows, "a").energy_mj, 975'000);
  EXPECT_EQ(sum(rows, "").energy_mj, 3'000'000 - 975'000);
  EXPECT_EQ(sum(rows, "").held, milliseconds(30'000 - 9750));
  EXPECT_EQ(use(30).held, milliseconds(9750)) << "over, and known for a while";
  EXPECT_FALSE(use(30).idle);
}

TEST_F(UsageAccumulatorTest, UnleasedTimeCountsWithoutEnergyReadings) {
  UsageAccumulator count;
  count.open({}, false);
  for (int second = 0; second <= 30; ++second) {
    UsageSample blind = reading(second);
    blind.energy.reset();
    count.record({at(second), wall(at(second)), {blind}});
  }
  Rows rows;
  keep(count, rows);
  EXPECT_EQ(sum(rows, "").held, seconds(25)) << "it follows the clock";
  EXPECT_EQ(sum(rows, "").counted, seconds(0));
  EXPECT_EQ(sum(rows, "").energy_mj, 0);
}

TEST_F(UsageAccumulatorTest, UnleasedTimeCountsAfterEnergyReadingsStop) {
  ticks(1, 10);
  for (int second = 11; second <= 40; ++second) {
    UsageSample old = reading(second);
    old.energy = reading(10).energy;
    count_.record({at(second), wall(at(second)), {old}});
  }
  tick(41);
  Rows rows;
  keep(count_, rows);
  EXPECT_EQ(sum(rows, "").held, seconds(41)) << "no second counts twice";
}

TEST_F(UsageAccumulatorTest, EnergyBetweenReadingsIsSplitByTime) {
  tick(1);
  count_.begin({"a", 1000, {"GPU-0"}, at(1.25)});
  count_.end("a", at(1.5));
  count_.begin({"b", 1001, {"GPU-0"}, at(1.5)});
  tick(2);
  EXPECT_EQ(use(2, "a").energy_mj, 25'000);
  EXPECT_EQ(use(2, "b").energy_mj, 50'000);
  EXPECT_FALSE(use(2, "a").estimated);
}

TEST_F(UsageAccumulatorTest, SharesOfALongTimeAreEstimates) {
  tick(1);
  count_.begin({"a", 1000, {"GPU-0"}, at(3)});
  tick(11);
  EXPECT_EQ(use(11).energy_mj, 800'000);
  EXPECT_TRUE(use(11).estimated);
}

TEST_F(UsageAccumulatorTest, UnmeasuredEnergyIsUnknownNotZero) {
  count_.begin({"a", 1000, {"GPU-7"}, at(1)});
  ticks(1, 20);
  EXPECT_FALSE(use(20).energy_mj);
  EXPECT_EQ(use(20).unknown, seconds(14)) << "all but what a reading may still tell";
  EXPECT_FALSE(use(20).mean_utilization_percent);
  EXPECT_FALSE(use(20).peak_bytes);
  EXPECT_FALSE(use(20).idle);
  count_.end("a", at(21));
  ticks(21, 30);
  EXPECT_EQ(use(30).unknown, seconds(20));
  EXPECT_EQ(use(30).held, seconds(20));
}

TEST_F(UsageAccumulatorTest, LostGpuSettlesLeaseLateEnergyIsUnleased) {
  ticks(1, 10);
  count_.begin({"a", 1000, {"GPU-0"}, at(10)});
  ticks(11, 20);
  count_.end("a", at(30));
  pass(31);
  pass(35);
  EXPECT_EQ(use(35).energy_mj, 1'000'000);
  EXPECT_EQ(use(35).unknown, seconds(10));
  tick(100);
  Rows rows;
  keep(count_, rows);
  EXPECT_EQ(sum(rows, "a").energy_mj, 1'000'000);
  EXPECT_EQ(sum(rows, "").energy_mj, 9'000'000);
}

TEST_F(UsageAccumulatorTest, GpuReturningDuringLeaseFillsUnknownTime) {
  count_.begin({"a", 1000, {"GPU-0"}, at(0)});
  ticks(1, 10);
  pass(40);
  EXPECT_EQ(use(40).unknown, seconds(25));
  tick(100);
  EXPECT_EQ(use(100).energy_mj, 10'000'000);
  EXPECT_EQ(use(100).unknown, seconds(0));
  EXPECT_FALSE(use(100).estimated) << "the counter counted it";
}

TEST_F(UsageAccumulatorTest, UnreadTimeIsNotZeroUtilization) {
  count_.begin({"a", 1000, {"GPU-0"}, at(0)});
  for (int second = 1; second <= 10; ++second) tick(second, 80);
  pass(60);
  tick(100, 80);
  tick(101, 20);
  const double expected = (10 * 80 + 20) / 11.0;
  EXPECT_NEAR(use(101).mean_utilization_percent.value_or(0), expected, 0.001);
}

TEST_F(UsageAccumulatorTest, UtilisationIsWeightedByTime) {
  count_.begin({"a", 1000, {"GPU-0"}, at(0)});
  tick(1, 100);
  tick(4, 0);
  EXPECT_DOUBLE_EQ(use(4).mean_utilization_percent.value_or(0), 25);
}

TEST_F(UsageAccumulatorTest, IdleRequiresZeroUtilizationOnEveryGpu) {
  count_.begin({"a", 1000, {"GPU-0", "GPU-1"}, at(0)});
  const auto both = [&](double second, std::int64_t first, std::int64_t other) {
    UsageSample more = reading(second, other);
    more.gpu = "GPU-1";
    count_.record({at(second), wall(at(second)), {reading(second, first), more}});
  };
  both(1, 0, 1);
  both(2, 0, 0);
  both(3, 0, 0);
  EXPECT_EQ(use(3.5).idle, milliseconds(1500));
  both(4, 1, 0);
  EXPECT_EQ(use(4).idle, seconds(0));
  both(5, 0, 0);
  EXPECT_EQ(use(11).idle, std::nullopt) << "nobody has looked for too long";
  both(20, 0, 0);
  EXPECT_EQ(use(20).idle, seconds(0)) << "what it did meanwhile is not known";
  EXPECT_EQ(use(20).peak_bytes, 2'000'000'000) << "of both";
}

TEST_F(UsageAccumulatorTest, NegligibleLeaseIsMarkedForCompaction) {
  ticks(1, 10);
  count_.begin({"tiny", 1000, {"GPU-0", "GPU-1"}, at(10.5)});
  count_.end("tiny", at(10.505));
  count_.begin({"short", 1000, {"GPU-0"}, at(10.6)});
  count_.end("short", at(10.9));
  EXPECT_FALSE(use(10.95, "tiny").settled) << "nothing was read since";
  ticks(11, 20);
  EXPECT_TRUE(use(20, "tiny").settled);
  Rows rows;
  keep(count_, rows);
  const Day day = std::chrono::floor<std::chrono::days>(kNoon);
  EXPECT_EQ(rows.at({day, "tiny", "GPU-0"}).compacted_leases, 1);
  EXPECT_EQ(rows.at({day, "tiny", "GPU-1"}).compacted_leases, 0) << "the same lease";
  EXPECT_EQ(rows.at({day, "short", "GPU-0"}).compacted_leases, std::nullopt) << "it used 30 J";
}

TEST_F(UsageAccumulatorTest, TenSecondLeaseKeepsOwnRow) {
  count_.begin({"a", 1000, {"GPU-1"}, at(1)});
  ticks(1, 12);
  count_.end("a", at(11));
  ticks(13, 20);
  Rows rows;
  keep(count_, rows);
  const Day day = std::chrono::floor<std::chrono::days>(kNoon);
  EXPECT_EQ(rows.at({day, "a", "GPU-1"}).compacted_leases, std::nullopt);
}

TEST_F(UsageAccumulatorTest, UsageIsSplitAtUtcMidnight) {
  const double midnight = 12 * 3600;
  tick(midnight - 1);
  count_.begin({"a", 1000, {"GPU-0"}, at(midnight - 1)});
  tick(midnight + 2);
  Rows rows;
  keep(count_, rows);
  const Day day = std::chrono::floor<std::chrono::days>(kNoon);
  const UsageCounters before = rows.at({day, "a", "GPU-0"}).counters;
  const UsageCounters after = rows.at({day + std::chrono::days(1), "a", "GPU-0"}).counters;
  EXPECT_EQ(before.energy_mj, 100'000);
  EXPECT_EQ(after.energy_mj, 200'000);
  EXPECT_EQ(before.held, seconds(1));
  EXPECT_EQ(after.held, seconds(2));
  EXPECT_EQ(before.busy_ns + after.busy_ns, 50 * Duration(seconds(3)).count());
}

TEST_F(UsageAccumulatorTest, ALeaseThatLastedNoTimeWasThere) {
  tick(1);
  count_.begin({"a", 1000, {"GPU-0"}, at(1)});
  count_.end("a", at(1));
  tick(2);
  Rows rows;
  keep(count_, rows);
  EXPECT_EQ(rows.count({std::chrono::floor<std::chrono::days>(kNoon), "a", "GPU-0"}), 1U);
}

TEST_F(UsageAccumulatorTest, CounterStopIsUnknownAndPowerIsEstimated) {
  count_.begin({"a", 1000, {"GPU-0"}, at(0)});
  tick(1);
  count_.record(
      {at(2), wall(at(2)), {{"GPU-0", EnergyTotal{at(2), 100'000, 0, seconds(1)}, {}, {}}}});
  EXPECT_EQ(use(2).unknown, seconds(1));
  EXPECT_FALSE(use(2).estimated);
  count_.record(
      {at(3), wall(at(3)), {{"GPU-0", EnergyTotal{at(3), 200'000, 100'000, seconds(1)}, {}, {}}}});
  EXPECT_EQ(use(3).energy_mj, 200'000);
  EXPECT_TRUE(use(3).estimated);
}

TEST(UsageAccumulator, RestoredLeaseContinuesFromSavedRows) {
  Rows rows;
  const Day day = std::chrono::floor<std::chrono::days>(kNoon);
  UsageRow row{day, "a", "GPU-0", 1000, false, {}};
  row.counters.held = row.counters.counted = seconds(60);
  row.counters.energy_mj = 6'000'000;
  row.counters.watched = seconds(60);
  row.counters.busy_ns = 80 * Duration(seconds(60)).count();
  row.counters.peak_bytes = 7;
  UsageRow other = row;
  other.lease = "over";
  UsageRow unreal = row;
  unreal.simulated = true;

  UsageAccumulator count;
  const auto see = [&](double second) {
    count.record(
        {at(second),
         wall(at(second)),
         {{"GPU-0", EnergyTotal{at(second), static_cast<std::int64_t>(second * 1000), 0, {}},
           GaugeValue{at(second), 20}, GaugeValue{at(second), 5}}}});
  };
  see(100);  // the daemon's first reading; the holder of the GPU is found a moment later
  see(101);
  count.open({{"a", 1000, {"GPU-0"}, at(0)}}, false);
  see(102);
  EXPECT_TRUE(count.take_ended_rows().empty());
  count.restore({row, other, unreal});
  see(103);
  const LeaseUsage use = *count.usage_of("a", at(103));
  EXPECT_EQ(use.held, seconds(103));
  EXPECT_EQ(use.energy_mj, 6'000'000 + 3000);
  EXPECT_EQ(use.unknown, seconds(40)) << "while the daemon was down";
  EXPECT_EQ(use.peak_bytes, 7);
  EXPECT_EQ(count.usage_of("over", at(103))->energy_mj, 6'000'000);
  keep(count, rows);
  EXPECT_EQ(rows.at({day, "a", "GPU-0"}).counters.held, seconds(103));
}

TEST(UsageAccumulator, ReusedIdContinuesFromRowsOfSameFence) {
  const Day day = std::chrono::floor<std::chrono::days>(kNoon);
  const auto row = [&](const std::string& lease, std::uint64_t fence, std::int64_t millijoules) {
    UsageRow out{day, lease, "GPU-0", 1000, false, {}, fence};
    out.counters.counted = seconds(1);
    out.counters.energy_mj = millijoules;
    return out;
  };
  UsageAccumulator count;
  count.record({at(0), wall(at(0))});
  count.open({{"again", 1000, {"GPU-0"}, at(0), 9}, {"old", 1000, {"GPU-1"}, at(0), 8}}, false);
  count.restore({row("again", 9, 1), row("again", 7, 10), row("again", 0, 100), row("old", 0, 1000),
                 row("over", 5, 1), row("over", 6, 2), row("over", 4, 4)});
  EXPECT_EQ(count.usage_of("again", at(0))->energy_mj, 1);
  EXPECT_EQ(count.usage_of("old", at(0))->energy_mj, 1000) << "begun before fences were kept";
  EXPECT_EQ(count.usage_of("over", at(0))->energy_mj, 2) << "the last of this id";
}

TEST(UsageAccumulator, LeaseEndedBeforeLoadWaitsForRows) {
  const Day day = std::chrono::floor<std::chrono::days>(kNoon);
  UsageRow row{day, "a", "GPU-0", 1000, false, {}};
  row.counters.energy_mj = 5;
  UsageAccumulator count;
  count.open({{"a", 1000, {"GPU-0"}, at(0)}}, false);
  count.end("a", at(1));
  count.record({at(100), wall(at(100))});
  EXPECT_TRUE(count.take_ended_rows().empty());
  count.restore({row});
  count.record({at(101), wall(at(101))});
  const auto over = count.take_ended_rows();
  ASSERT_EQ(over.size(), 1U);
  EXPECT_EQ(over[0].counters.energy_mj, 5);
  EXPECT_EQ(over[0].counters.held, seconds(1));
}

TEST(UsageAccumulator, EndedLeasesAreEvictedAfterRetention) {
  UsageAccumulator count;
  count.open({}, false);
  count.record({at(0), wall(at(0))});
  const auto live = [&](int number) {
    const std::string id = std::to_string(number);
    count.begin({id, 1000, {"GPU-" + id}, at(0)});
    count.end(id, at(0));
  };
  live(-1);
  count.record({at(10), wall(at(10))});
  EXPECT_TRUE(count.usage_of("-1", at(10)));
  const auto later = at(10) + UsageAccumulator::kEndedRetention + seconds(1);
  count.record({later, wall(later)});
  EXPECT_FALSE(count.usage_of("-1", later));
  for (int i = 0; i <= static_cast<int>(UsageAccumulator::kMaxEndedLeases); ++i) live(i);
  count.record({later + seconds(10), wall(later + seconds(10))});
  EXPECT_TRUE(count.usage_of("9999", later));
  EXPECT_FALSE(count.usage_of("0", later)) << "the first by name";
}

// Leases come and go on two GPUs, which at times are not read, or only estimated. For each GPU, the
// energy of all leases and of none adds up to the counted energy.
RC_GTEST_PROP(UsageAccumulator, EachMillijouleIsSomebodysOnce, ()) {
  constexpr int kBoth = 2;
  const auto pick = [](int upto) { return *rc::gen::resize(100, rc::gen::inRange(0, upto)); };
  Rows rows;
  UsageAccumulator count;
  count.open({}, false);
  count.restore({});
  std::array<EnergyTotal, kBoth> meters{};
  std::array<EnergyTotal, kBoth> first{};
  std::array<bool, kBoth> read{};
  std::array<std::string, kBoth> holder;
  std::array<std::int64_t, kBoth> counted{};
  TimePoint now = kStart;
  int leases = 0;
  const int steps = pick(200);
  for (int step = 0; step < steps; ++step) {
    now += milliseconds(pick(4) == 0 ? pick(20'000'000) : pick(1500));
    const auto gpu = static_cast<std::size_t>(pick(kBoth));
    const std::string id = "GPU-" + std::to_string(gpu);
    const int what = pick(10);
    if (what == 0 && holder[gpu].empty()) {
      holder[gpu] = "lease-" + std::to_string(leases++);
      count.begin({holder[gpu], 1000, {id}, now});
    } else if (what == 1 && !holder[gpu].empty()) {
      count.end(std::exchange(holder[gpu], ""), now);
    } else if (what == 2) {
      keep(count, rows);
    } else if (what == 3) {
      count.record({now, wall(now)});
    } else {
      EnergyTotal& meter = meters[gpu];
      const TimePoint taken = now - milliseconds(pick(5));
      if (taken <= meter.taken) continue;
      const std::int64_t grown = pick(1'000'000);
      meter.energy_mj += grown;
      meter.estimated_mj += pick(3) == 0 ? grown : 0;
      meter.unknown += pick(5) == 0 ? milliseconds(pick(1000)) : milliseconds(0);
      meter.taken = taken;
      count.record({now, wall(now), {{id, meter, GaugeValue{meter.taken, pick(101)}, {}}}});
      if (!std::exchange(read[gpu], true)) first[gpu] = meter;
      counted[gpu] = meter.energy_mj - first[gpu].energy_mj;
    }
  }
  keep(count, rows);
  for (std::size_t gpu = 0; gpu < kBoth; ++gpu) {
    std::int64_t booked = 0;
    for (const auto& [key, row] : rows) {
      if (row.gpu == "GPU-" + std::to_string(gpu)) booked += row.counters.energy_mj;
    }
    RC_ASSERT(booked == counted[gpu]);
  }
  for (const UsageRow& row : values(rows)) {
    RC_ASSERT(row.counters.energy_mj >= row.counters.estimated_mj);
    RC_ASSERT(row.counters.estimated_mj >= 0);
    RC_ASSERT(row.counters.watched <= hours(24));
    RC_ASSERT(row.counters.held <= hours(24));
  }
}

}  // namespace
}  // namespace gpuyard::usage
