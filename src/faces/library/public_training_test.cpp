// A TrainingMonitor as a training loop has it. Time is the test's own, except where a thread is
// tested.
#include "gpuyard/training.h"

#include <chrono>
#include <future>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "faces/library/no_threads_for_tests.h"
#include "gpuyard/gpuyard.h"

namespace {

using namespace std::chrono_literals;
using gpuyard::Alert;
using gpuyard::FakeFleet;
using gpuyard::Monitor;
using gpuyard::TrainingAction;
using gpuyard::TrainingMonitor;
using gpuyard::TrainingReport;
using enum gpuyard::TrainingAction;

class Training : public ::testing::Test {
 protected:
  Training() {
    for (const std::uint32_t gpu : {0U, 1U}) {
      EXPECT_TRUE(fleet_.set_number(gpu, "energy_total_j", 1'000));
      EXPECT_TRUE(fleet_.set_number(gpu, "power_draw_w", 250));
      EXPECT_TRUE(fleet_.set_number(gpu, "utilization_gpu_percent", 90));
    }
  }
  ~Training() override {
    for (const std::uint32_t gpu : {0U, 1U}) fleet_.unblock(gpu);
  }

  TrainingMonitor by_hand() {
    TrainingMonitor training(monitor_);
    training.with_manual_time().on_alert([this](const Alert& alert) {
      alert_messages_.push_back(alert.message());
      return answer_;
    });
    return training;
  }

  FakeFleet fleet_ = FakeFleet::with_healthy_gpus(2, 80'000'000'000);
  Monitor monitor_ = Monitor::open_or_none(fleet_);
  TrainingAction answer_ = pause;
  std::vector<std::string> alert_messages_;
};

TEST_F(Training, PausesWhileAGpuIsTooHot) {
  RecordProperty("contract", "C12");
  TrainingMonitor training = by_hand();
  ASSERT_TRUE(training.with_thermal_threshold(75).begin());
  training.sample_at(1s);
  EXPECT_EQ(training.step(), keep_going);
  fleet_.set_temperature(1, 78);
  training.sample_at(6s);
  EXPECT_EQ(training.step(), pause);
  EXPECT_EQ(training.wait_while_paused(1h), pause) << "nothing waits in a test";
  EXPECT_EQ(training.cause()->message(), "GPU 1: temperature is 78 C, threshold 75 C");
  fleet_.set_temperature(1, 70);
  training.sample_at(11s);
  EXPECT_EQ(training.wait_while_paused(1h), keep_going);
  EXPECT_EQ(alert_messages_.size(), 1U);
  EXPECT_EQ(training.end().paused_seconds, 5);
}

TEST_F(Training, StopsWhenAHandlerSaysSo) {
  RecordProperty("contract", "C12");
  TrainingMonitor training = by_hand();
  answer_ = stop;
  ASSERT_TRUE(training.begin());
  EXPECT_FALSE(training.should_stop());
  fleet_.set_memory_used(0, 79'600'000'000);
  training.sample_at(1s);
  EXPECT_TRUE(training.should_stop());
  EXPECT_EQ(training.wait_while_paused(1h), stop);
  fleet_.set_memory_used(0, 0);
  training.sample_at(2s);
  training.resume();
  EXPECT_TRUE(training.should_stop());
  training.end();
  ASSERT_TRUE(training.begin());
  EXPECT_FALSE(training.should_stop()) << "a training of its own";
}

TEST_F(Training, TakesAllThresholds) {
  RecordProperty("contract", "C12 C7");
  ASSERT_TRUE(fleet_.set_number(0, "power_limit_w", 1'000));
  ASSERT_TRUE(fleet_.set_number(0, "utilization_gpu_percent", 0));
  fleet_.set_memory_used(0, 8'000'000'000);
  TrainingMonitor training = by_hand();
  training.with_memory_threshold(10).with_power_threshold(25).with_idle_timeout_secs(60);
  answer_ = keep_going;
  ASSERT_TRUE(training.begin());
  training.sample_at(0s);
  training.sample_at(60s);
  EXPECT_EQ(alert_messages_,
            (std::vector<std::string>{"GPU 0: memory is 10 % used, threshold 10 %",
                                      "GPU 0: power is 25 % of its limit, threshold 25 %",
                                      "GPU 0: idle for 60 s, threshold 60 s: possible hang"}));
}

TEST_F(Training, OnlySelectedGpusAreSampled) {
  RecordProperty("contract", "C12");
  TrainingMonitor training = by_hand();
  ASSERT_TRUE(training.with_gpus({1}).begin());
  fleet_.set_temperature(0, 99);
  training.sample_at(1s);
  EXPECT_EQ(training.action(), keep_going);
  const TrainingReport report = training.end();
  ASSERT_EQ(report.gpus.size(), 1U);
  EXPECT_EQ(report.gpus[0].index, 1U);
}

TEST_F(Training, ReportsEachEpochAndTheWhole) {
  RecordProperty("contract", "C12");
  ASSERT_TRUE(fleet_.set_number(0, "throttle_time_sw_thermal_seconds", 7));
  TrainingMonitor training = by_hand();
  ASSERT_TRUE(training.begin());
  fleet_.set_memory_used(0, 40'000'000'000);
  fleet_.set_temperature(0, 71);
  training.sample_at(10s);
  for (int i = 0; i < 400; ++i) training.step();
  ASSERT_TRUE(fleet_.set_number(0, "energy_total_j", 1'500.5));
  ASSERT_TRUE(fleet_.set_number(0, "throttle_time_sw_thermal_seconds", 11));
  fleet_.set_temperature(0, 60);
  const TrainingReport first = training.epoch_end();
  EXPECT_EQ(first.epoch, 1U);
  EXPECT_EQ(first.seconds, 10);
  EXPECT_EQ(first.steps, 400U);
  EXPECT_EQ(first.joules, 500.5);
  EXPECT_FALSE(first.joules_estimated);
  ASSERT_EQ(first.gpus.size(), 2U);
  EXPECT_EQ(first.gpus[0].joules, 500.5);
  EXPECT_EQ(first.gpus[1].joules, 0.0);
  EXPECT_EQ(first.gpus[0].peak_memory_bytes, 40'000'000'000U);
  EXPECT_EQ(first.gpus[0].highest_celsius, 71);
  EXPECT_EQ(first.gpus[0].mean_utilization_percent, 90);
  EXPECT_EQ(first.gpus[0].throttled_seconds, 4);
  EXPECT_EQ(first.gpus[1].throttled_seconds, std::nullopt) << "it does not tell";
  EXPECT_EQ(first.line(), "epoch 1: 10.0 s, 400 steps, 500 J, peak 40.0 GB, 71 C, 90 % util");
  training.sample_at(25s);
  ASSERT_TRUE(fleet_.set_number(1, "energy_total_j", 1'100));
  const TrainingReport second = training.epoch_end();
  EXPECT_EQ(second.epoch, 2U);
  EXPECT_EQ(second.seconds, 15);
  EXPECT_EQ(second.steps, 0U);
  EXPECT_EQ(second.joules, 100);
  EXPECT_EQ(second.gpus[0].highest_celsius, 60);
  const TrainingReport all = training.end();
  EXPECT_EQ(all.epoch, 2U);
  EXPECT_EQ(all.seconds, 25);
  EXPECT_EQ(all.steps, 400U);
  EXPECT_EQ(all.joules, 600.5);
  EXPECT_EQ(all.gpus[0].highest_celsius, 71);
  EXPECT_EQ(training.end(), all) << "ending it again changes nothing";
}

TEST_F(Training, EpochIsEstimatedOnlyByOwnEnergy) {
  const gpuyard::Missing none{gpuyard::MissingReason::not_supported, ""};
  ASSERT_TRUE(fleet_.set_missing(0, "energy_total_j", none));
  TrainingMonitor training = by_hand();
  ASSERT_TRUE(training.begin());
  EXPECT_TRUE(training.epoch_end().joules_estimated) << "power over time";
  ASSERT_TRUE(fleet_.set_number(0, "energy_total_j", 1'000));
  training.epoch_end();  // in which the counter appears
  EXPECT_FALSE(training.epoch_end().joules_estimated);
  EXPECT_TRUE(training.end().joules_estimated);
}

TEST_F(Training, SaysWhyThereAreNoJoules) {
  RecordProperty("contract", "C12");
  const FakeFleet silent = FakeFleet::with_healthy_gpus(1, 80'000'000'000);
  const Monitor monitor = Monitor::open_or_none(silent);
  TrainingMonitor training(monitor);
  ASSERT_TRUE(training.with_manual_time().begin());
  const TrainingReport report = training.epoch_end();
  EXPECT_EQ(report.joules, std::nullopt);
  EXPECT_NE(report.joules_missing.find("energy"), std::string::npos) << report.joules_missing;
  EXPECT_EQ(report.line(), "epoch 1: 0.0 s, 0 steps, - J, peak 0.0 GB, 40 C, 0 % util");
}

TEST(TrainingWithoutADriver, IsTrainingWithoutReadings) {
  RecordProperty("contract", "C12");
  const Monitor none = Monitor::open_or_none(FakeFleet::without_driver("Driver Not Loaded"));
  TrainingMonitor training(none);
  ASSERT_TRUE(training.with_interval_secs(0.1).begin());
  EXPECT_EQ(training.step(), keep_going);
  const TrainingReport report = training.epoch_end();
  EXPECT_EQ(report.joules_missing, "failed to initialise NVML: Driver Not Loaded");
  EXPECT_TRUE(report.gpus.empty());
  EXPECT_EQ(report.samples, 0U);
  EXPECT_TRUE(report.line().ends_with("1 steps, - J, peak - GB, - C, - % util")) << report.line();
}

TEST_F(Training, SurvivesDestroyedMonitorAndLostGpu) {
  RecordProperty("contract", "C12");
  auto monitor = std::make_optional(Monitor::open_or_none(fleet_));
  TrainingMonitor training(*monitor);
  ASSERT_TRUE(training.with_manual_time().begin());
  monitor.reset();
  fleet_.remove_gpu(0);
  training.sample_at(1s);
  EXPECT_EQ(training.action(), keep_going);
  const TrainingReport report = training.end();
  ASSERT_EQ(report.gpus.size(), 2U) << "it was there when it began";
  EXPECT_EQ(report.gpus[0].highest_celsius, 40);
}

TEST_F(Training, GoesOnWhenItsHandlerThrows) {
  RecordProperty("contract", "C12");
  static std::mutex mutex;
  static std::vector<std::string> lines;
  gpuyard::set_log_sink([](gpuyard::LogLevel level, std::string_view line) {
    const std::lock_guard lock(mutex);
    if (level == gpuyard::LogLevel::error) lines.emplace_back(line);
  });
  TrainingMonitor training(monitor_);
  training.with_manual_time().on_alert(
      [](const Alert&) -> TrainingAction { throw std::runtime_error("oh"); });
  ASSERT_TRUE(training.begin());
  fleet_.set_temperature(0, 85);
  training.sample_at(1s);
  fleet_.set_temperature(0, 95);
  training.sample_at(2s);
  EXPECT_EQ(training.action(), keep_going);
  const TrainingReport report = training.end();
  gpuyard::set_log_sink(nullptr);
  EXPECT_EQ(report.alerts, 2U);
  EXPECT_EQ(report.handler_failures, 2U);
  EXPECT_EQ(lines, (std::vector<std::string>(2, "The training's alert handler threw: oh")));
}

TEST_F(Training, AlertsWithoutHandlerAreCounted) {
  TrainingMonitor training(monitor_);
  ASSERT_TRUE(training.with_manual_time().begin());
  fleet_.set_temperature(0, 85);
  training.sample_at(1s);
  EXPECT_EQ(training.action(), keep_going);
  EXPECT_EQ(training.end().alerts, 1U);
}

TEST_F(Training, IsPausedByHandToo) {
  RecordProperty("contract", "C12");
  TrainingMonitor training = by_hand();
  ASSERT_TRUE(training.begin());
  training.pause();
  training.sample_at(5s);
  EXPECT_EQ(training.step(), pause);
  training.resume();
  EXPECT_EQ(training.step(), keep_going);
  training.stop();
  EXPECT_EQ(training.step(), stop);
}

TEST_F(Training, InactiveBeforeBeginAndSecondBeginConflicts) {
  TrainingMonitor training = by_hand();
  EXPECT_EQ(training.step(), keep_going);
  EXPECT_EQ(training.wait_while_paused(1h), keep_going);
  EXPECT_EQ(training.epoch_end(), TrainingReport{});
  EXPECT_EQ(training.end(), TrainingReport{});
  EXPECT_EQ(training.cause(), std::nullopt);
  training.pause();
  training.sample_at(1s);
  ASSERT_TRUE(training.begin());
  EXPECT_EQ(training.begin().error().code, gpuyard::Errc::conflict);
  EXPECT_EQ(training.action(), keep_going);
}

TEST_F(Training, HasNotBegunWhereThereIsNoThread) {
  TrainingMonitor training(monitor_);
  {
    const gpuyard::NoThreads none;
    EXPECT_EQ(training.begin().error().code, gpuyard::Errc::unavailable);
  }
  EXPECT_EQ(training.end(), TrainingReport{});
  EXPECT_TRUE(training.begin());
}

TEST_F(Training, RefusesAnIntervalThatIsNone) {
  TrainingMonitor training = by_hand();
  for (const double seconds : {0.0, -1.0, 0.05, 1e9, 0.0 / 0.0}) {
    EXPECT_EQ(training.with_interval_secs(seconds).begin().error().code, gpuyard::Errc::invalid);
  }
  EXPECT_TRUE(training.with_interval_secs(0.1).begin());
}

TEST_F(Training, HandlerMayCallEnd) {
  RecordProperty("contract", "C12");
  TrainingMonitor training(monitor_);
  training.with_manual_time().on_alert([&](const Alert&) {
    training.step();
    training.sample_at(9s);
    training.epoch_end();
    training.end();
    return pause;
  });
  ASSERT_TRUE(training.begin());
  fleet_.set_temperature(0, 85);
  training.sample_at(1s);
  EXPECT_EQ(training.end().epoch, 1U);
  EXPECT_EQ(training.wait_while_paused(1h), stop);
}

TEST_F(Training, EndInHandlerStopsFurtherCalls) {
  TrainingMonitor training(monitor_);
  int calls = 0;
  training.with_manual_time().on_alert([&](const Alert&) {
    ++calls;
    training.end();
    return keep_going;
  });
  ASSERT_TRUE(training.begin());
  fleet_.set_temperature(0, 85);
  fleet_.set_temperature(1, 85);
  training.sample_at(1s);
  EXPECT_EQ(calls, 1);
}

// The GPU takes twice as long as an edge waits without manual time.
TEST_F(Training, InATestASlowGpuIsWaitedFor) {
  TrainingMonitor training = by_hand();
  ASSERT_TRUE(training.begin());
  fleet_.block(0);
  auto epoch = std::async(std::launch::async, [&] { return training.epoch_end(); });
  EXPECT_EQ(epoch.wait_for(1s), std::future_status::timeout);
  ASSERT_TRUE(fleet_.set_number(0, "energy_total_j", 1'500));
  fleet_.unblock(0);
  EXPECT_EQ(epoch.get().joules, 500);
}

TEST_F(Training, BackgroundSamplingPausesAndWakesWaiter) {
  RecordProperty("contract", "C12");
  std::promise<std::thread::id> promise;
  TrainingMonitor training(monitor_);
  training.with_interval_secs(0.1).on_alert([&](const Alert&) {
    promise.set_value(std::this_thread::get_id());
    return pause;
  });
  fleet_.set_temperature(0, 85);
  ASSERT_TRUE(training.begin());
  auto who = promise.get_future();
  ASSERT_EQ(who.wait_for(30s), std::future_status::ready);
  EXPECT_NE(who.get(), std::this_thread::get_id());
  while (training.action() != pause) std::this_thread::yield();
  EXPECT_EQ(training.wait_while_paused(1ms), pause) << "the deadline";
  fleet_.set_temperature(0, 50);
  EXPECT_EQ(training.wait_while_paused(30s), keep_going);
  const TrainingReport report = training.end();
  EXPECT_GT(report.samples, 2U);
  EXPECT_GT(report.paused_seconds, 0);
}

TEST_F(Training, EndWakesPausedWaiter) {
  TrainingMonitor training(monitor_);
  ASSERT_TRUE(training.begin());
  training.pause();
  auto waiting = std::async(std::launch::async, [&] { return training.wait_while_paused(1h); });
  training.end();
  EXPECT_EQ(waiting.get(), stop);
}

TEST_F(Training, AHandlerOnItsThreadMayEndIt) {
  std::promise<void> ended;
  TrainingMonitor training(monitor_);
  training.with_interval_secs(0.1).on_alert([&](const Alert&) {
    training.end();
    ended.set_value();
    return keep_going;
  });
  fleet_.set_temperature(0, 85);
  ASSERT_TRUE(training.begin());
  EXPECT_EQ(ended.get_future().wait_for(30s), std::future_status::ready);
}

TEST_F(Training, HangingGpuDoesNotBlockReports) {
  RecordProperty("contract", "C12");
  TrainingMonitor training(monitor_);
  ASSERT_TRUE(training.with_interval_secs(0.1).begin());
  fleet_.block(1);
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(training.epoch_end().gpus.size(), 2U);
  training.end();
  EXPECT_LT(std::chrono::steady_clock::now() - before, 10s);
  fleet_.unblock(1);
}

TEST_F(Training, ManyThreadsMayCallIt) {
  RecordProperty("contract", "C12");
  TrainingMonitor training(monitor_);
  training.with_interval_secs(0.1).on_alert([](const Alert&) { return pause; });
  ASSERT_TRUE(training.begin());
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 500; ++i) {
          training.step();
          training.resume();
          if (i % 100 == 0) training.epoch_end();
        }
      });
    }
    for (int i = 0; i < 100; ++i) fleet_.set_temperature(0, 70 + i % 30);
  }
  const TrainingReport all = training.end();
  EXPECT_EQ(all.steps, 2'000U);
  EXPECT_EQ(all.epoch, 20U);
}

// With a GPU that hangs, each edge waits for two readings of 250 ms: two edges for four, unless one
// overtakes what the other has read and not added yet.
TEST_F(Training, ConcurrentEdgesAreSerialised) {
  TrainingMonitor training(monitor_);
  ASSERT_TRUE(training.begin());
  fleet_.block(0);
  const auto before = std::chrono::steady_clock::now();
  {
    const std::jthread one([&] { training.epoch_end(); });
    const std::jthread other([&] { training.epoch_end(); });
  }
  EXPECT_GE(std::chrono::steady_clock::now() - before, 1s);
  fleet_.unblock(0);
}

TEST_F(Training, ActionsHaveNames) {
  EXPECT_EQ(name_of(keep_going), "keep_going");
  EXPECT_EQ(name_of(pause), "pause");
  EXPECT_EQ(name_of(stop), "stop");
}

}  // namespace
