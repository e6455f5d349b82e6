#include "gpu/device/power_sources.h"

#include <cmath>

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

using std::chrono::milliseconds;

class PowerSourcesTest : public ::testing::Test {
 protected:
  // A second in which the counter grows by `counted` W, and the power at its end reads `read` W.
  void second(std::int64_t counted, std::int64_t read) {
    pass(milliseconds(1000));
    counter_mj_ += counted * 1000;
    add_sample(read);
  }
  void seconds(int count, std::int64_t counted, std::int64_t read) {
    for (int i = 0; i < count; ++i) second(counted, read);
  }
  void add_sample(std::int64_t read) {
    Sample sample;
    sample.set({Metric::energy_total, 0, now_, counter_mj_});
    sample.set({Metric::power_draw, 0, now_, read * 1000});
    sample.set({Metric::utilization_gpu, 0, now_, use_});
    sources_.update(sample);
  }
  void add_average() {
    Sample sample;
    sample.set({Metric::power_draw_average, 0, now_, std::int64_t{70'000}});
    sources_.update(sample);
  }
  void pass(Duration time) { now_ += time; }
  bool has_contradiction() const { return !sources_.contradiction().empty(); }

  TimePoint now_{std::chrono::hours(1)};
  std::int64_t counter_mj_ = 1'000'000;
  std::int64_t use_ = 0;
  PowerSources sources_;
};

TEST_F(PowerSourcesTest, AgreeOnAnySteadyPower) {
  for (const std::int64_t watts : {0, 8, 70, 700, 2'700}) {
    seconds(60, watts, watts);
    EXPECT_FALSE(has_contradiction()) << watts;
  }
}

TEST_F(PowerSourcesTest, ContradictAfterTenSecondsOfGrossDifference) {
  add_average();
  seconds(20, 70, 70);
  seconds(10, 70, 900);
  EXPECT_FALSE(has_contradiction());
  seconds(5, 70, 900);
  ASSERT_TRUE(has_contradiction());
  EXPECT_EQ(sources_.contradiction(),
            "its power readings contradict each other: it reads 900 W, and its energy counter "
            "grows by 70 W");
}

TEST_F(PowerSourcesTest, ACounterThatStandsStillContradicts) {
  add_average();
  seconds(16, 0, 300);
  EXPECT_TRUE(has_contradiction());
}

TEST_F(PowerSourcesTest, ASmallDifferenceIsNone) {
  add_average();
  seconds(60, 10, 105);
  EXPECT_FALSE(has_contradiction()) << "ten times as much, and 95 W more";
  seconds(60, 350, 1'000);
  EXPECT_FALSE(has_contradiction()) << "650 W more, and less than three times as much";
}

TEST_F(PowerSourcesTest, AShortDifferenceIsNone) {
  add_average();
  for (int i = 0; i < 10; ++i) {
    seconds(10, 70, 70);
    seconds(4, 70, 2'000);
  }
  EXPECT_FALSE(has_contradiction());
}

TEST_F(PowerSourcesTest, AgreeAgainAfterTenSecondsOfAgreement) {
  add_average();
  seconds(20, 70, 900);
  ASSERT_TRUE(has_contradiction());
  seconds(10, 70, 70);
  EXPECT_TRUE(has_contradiction());
  seconds(6, 70, 70);
  EXPECT_FALSE(has_contradiction());
}

// A load of `period` and `duty`, read by an average over a second or as the power of a moment.
TEST_F(PowerSourcesTest, BurstsAreNoContradiction) {
  constexpr double kIdle = 50;
  constexpr double kBusy = 1'400;
  for (const bool average : {true, false}) {
    for (const double period : {0.1, 0.5, 0.999, 1.0, 1.001, 2.0, 3.7, 10.0, 40.0}) {
      for (const double duty : {0.05, 0.3, 0.8}) {
        sources_ = {};
        if (average) add_average();
        double smooth = kIdle;
        double counter = 0;
        double busy = 0;
        const auto start = static_cast<double>(counter_mj_);
        for (int ms = 0; ms < 120'000; ++ms) {
          const bool on = std::fmod(ms / 1000.0, period) < duty * period;
          const double watts = on ? kBusy : kIdle;
          smooth += (watts - smooth) / 500;  // as a filter with half a second
          counter += watts;                  // W x ms = mJ
          busy += on ? 1 : 0;
          pass(milliseconds(1));
          if (ms % 1000 != 999) continue;
          counter_mj_ = static_cast<std::int64_t>(start + counter);
          use_ = std::llround(busy / 10);
          busy = 0;
          add_sample(std::llround(average ? smooth : watts));
          ASSERT_FALSE(has_contradiction()) << average << " " << period << " " << duty << " " << ms;
        }
      }
    }
  }
}

TEST_F(PowerSourcesTest, MismatchUnexplainedByBurstsIsContradiction) {
  use_ = 99;
  seconds(20, 900, 70);
  EXPECT_TRUE(has_contradiction()) << "too low, though always busy";
  sources_ = {};
  seconds(20, 70, 900);
  EXPECT_FALSE(has_contradiction()) << "it may always be read in a burst";
  use_ = 0;
  seconds(20, 70, 900);
  EXPECT_TRUE(has_contradiction()) << "too high, though always idle";
  sources_ = {};
  use_ = 50;
  seconds(20, 0, 300);
  EXPECT_TRUE(has_contradiction()) << "a counter that stands still";
}

TEST_F(PowerSourcesTest, ACounterThatStartsOverIsNoContradiction) {
  add_average();
  for (int i = 0; i < 20; ++i) {
    seconds(4, 300, 300);
    counter_mj_ = 0;
  }
  EXPECT_FALSE(has_contradiction());
}

TEST_F(PowerSourcesTest, ReadingGapIsNoContradiction) {
  add_average();
  for (int i = 0; i < 20; ++i) {
    seconds(4, 300, 300);
    pass(milliseconds(10'000));  // and the counter has grown by nothing
  }
  EXPECT_FALSE(has_contradiction());
}

TEST_F(PowerSourcesTest, AContradictionIsForgottenWithoutReadings) {
  add_average();
  seconds(20, 70, 900);
  ASSERT_TRUE(has_contradiction());
  pass(PowerSources::kContradictionRetention);
  Sample sample;
  const Missing why{MissingReason::failed, "Unknown Error"};
  sample.set({Metric::energy_total, 0, now_, why});
  sample.set({Metric::power_draw, 0, now_, why});
  sources_.update(sample);
  EXPECT_FALSE(has_contradiction());
}

TEST_F(PowerSourcesTest, RapidReadingsAreNoContradiction) {
  add_average();
  for (int i = 0; i < 1'000; ++i) {
    pass(milliseconds(20));
    if (i % 5 == 0) counter_mj_ += std::int64_t{100} * 300;  // updated every 100 ms
    add_sample(300);
  }
  EXPECT_FALSE(has_contradiction());
}

}  // namespace
}  // namespace gpuyard
