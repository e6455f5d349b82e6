#include "gpu/telemetry/power_sampler.h"

#include <map>

#include <gtest/gtest.h>

#include "base/manual_loop_for_tests.h"

namespace gpuyard::telemetry {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A GPU whose power is read at once when requested, unless the GPU is stuck.
class PowerSamplerTest : public ::testing::Test {
 protected:
  OnPower into(std::vector<Reading>& readings) {
    return [&readings](const Reading& reading) { readings.push_back(reading); };
  }

  ManualLoop loop_;
  bool stuck_ = false;
  Metric has_ = Metric::power_draw_instant;
  std::map<DeviceId, int> request_counts_;
  PowerSampler burst_{loop_, [this](const DeviceId& id) {
                        ++request_counts_[id];
                        if (stuck_) return;
                        loop_.post([this, id] {
                          Sample sample;
                          sample.set({Metric::power_draw_instant, 0, loop_.now(), Missing{}});
                          sample.set({Metric::power_draw, 0, loop_.now(), Missing{}});
                          sample.set({has_, 0, loop_.now(), std::int64_t{300'000}});
                          burst_.on_sample(id, sample);
                        });
                      }};
};

TEST_F(PowerSamplerTest, GpuWithoutSubscriberIsNotQueried) {
  RecordProperty("contract", "B19");
  loop_.advance(seconds(10));
  EXPECT_TRUE(request_counts_.empty());
  {
    std::vector<Reading> readings;
    const auto listening = burst_.subscribe("GPU-a", milliseconds(50), into(readings));
    loop_.advance(seconds(1));
    EXPECT_EQ(request_counts_["GPU-a"], 21);
    EXPECT_EQ(request_counts_.count("GPU-b"), 0U);
  }
  const int before = request_counts_["GPU-a"];
  loop_.advance(seconds(10));
  EXPECT_EQ(request_counts_["GPU-a"], before);
}

TEST_F(PowerSamplerTest, FirstValueIsImmediateAndUnchangedOnesRepeat) {
  std::vector<Reading> readings;
  const auto listening = burst_.subscribe("GPU-a", milliseconds(100), into(readings));
  loop_.advance(milliseconds(1));
  ASSERT_EQ(readings.size(), 1U);
  EXPECT_EQ(*readings[0].number(), 300'000);
  EXPECT_EQ(readings[0].metric, Metric::power_draw_instant);
  loop_.advance(seconds(1));
  EXPECT_EQ(readings.size(), 11U);
}

TEST_F(PowerSamplerTest, EachListenerIsCalledAtOwnRate) {
  std::vector<Reading> eager;
  std::vector<Reading> calm;
  const auto slow = burst_.subscribe("GPU-a", milliseconds(500), into(calm));
  const auto fast = burst_.subscribe("GPU-a", milliseconds(10), into(eager));
  loop_.advance(seconds(2));
  EXPECT_NEAR(static_cast<double>(eager.size()), 201, 2);
  EXPECT_NEAR(static_cast<double>(calm.size()), 5, 1);
  EXPECT_NEAR(request_counts_["GPU-a"], 201, 2);
}

TEST_F(PowerSamplerTest, MissingInstantPowerFallsBackToAverage) {
  has_ = Metric::power_draw;
  std::vector<Reading> readings;
  const auto listening = burst_.subscribe("GPU-a", milliseconds(100), into(readings));
  loop_.advance(milliseconds(1));
  ASSERT_EQ(readings.size(), 1U);
  EXPECT_EQ(readings[0].metric, Metric::power_draw);
}

TEST_F(PowerSamplerTest, ReplyToOtherQueryIsIgnored) {
  stuck_ = true;
  std::vector<Reading> readings;
  const auto listening = burst_.subscribe("GPU-a", milliseconds(100), into(readings));
  loop_.advance(milliseconds(10));
  Sample average;
  average.set({Metric::power_draw, 0, loop_.now(), std::int64_t{1}});
  burst_.on_sample("GPU-a", average);
  EXPECT_TRUE(readings.empty());
}

TEST_F(PowerSamplerTest, StuckGpuReportsTimeoutEverySecond) {
  stuck_ = true;
  std::vector<Reading> readings;
  const auto listening = burst_.subscribe("GPU-a", milliseconds(10), into(readings));
  loop_.advance(milliseconds(3'500));
  EXPECT_EQ(request_counts_["GPU-a"], 4);
  ASSERT_EQ(readings.size(), 3U);
  EXPECT_EQ(readings[0].missing()->reason, MissingReason::timed_out);
}

TEST_F(PowerSamplerTest, LostReplyIsRequestedAgain) {
  stuck_ = true;
  std::vector<Reading> readings;
  const auto listening = burst_.subscribe("GPU-a", milliseconds(100), into(readings));
  loop_.advance(milliseconds(1'500));
  stuck_ = false;
  loop_.advance(milliseconds(1'500));
  EXPECT_NE(readings.back().number(), nullptr);
}

TEST_F(PowerSamplerTest, ListenerMayUnsubscribeInCallback) {
  std::vector<Reading> other;
  Subscription leaving;
  int calls = 0;
  leaving = burst_.subscribe("GPU-a", milliseconds(10), [&](const Reading&) {
    ++calls;
    leaving.reset();
  });
  const auto staying = burst_.subscribe("GPU-a", milliseconds(10), into(other));
  loop_.advance(milliseconds(55));
  EXPECT_EQ(calls, 1);
  EXPECT_GT(other.size(), 4U);
}

TEST_F(PowerSamplerTest, AListenerMayOutliveIt) {
  std::vector<Reading> readings;
  auto burst = std::make_unique<PowerSampler>(loop_, [](const DeviceId&) {});
  auto listening = burst->subscribe("GPU-a", milliseconds(10), into(readings));
  burst.reset();
  listening.reset();
  EXPECT_TRUE(readings.empty());
}

TEST_F(PowerSamplerTest, AnAbsurdRateIsBounded) {
  std::vector<Reading> readings;
  const auto listening = burst_.subscribe("GPU-a", Duration(1), into(readings));
  loop_.advance(seconds(1));
  EXPECT_EQ(request_counts_["GPU-a"], 101);
}

}  // namespace
}  // namespace gpuyard::telemetry
