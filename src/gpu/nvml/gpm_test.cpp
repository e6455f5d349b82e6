#include "nvml/gpm.h"

#include <array>
#include <cmath>

#include <gtest/gtest.h>

namespace gpuyard::nvml {
namespace {

constexpr TimePoint kStart{std::chrono::seconds(100)};

// A driver whose samples are just numbers.
struct GpmDriver {
  std::array<char, 4> samples{};
  std::size_t allocated = 0;
  int freed = 0;
  ReturnCode get = kSuccess;
  double tensor = 12.3456;
  GpmSample older = nullptr;
  GpmSample newer = nullptr;
};
GpmDriver gpm_driver;

Api gpm_api() {
  gpm_driver = {};
  Api api;
  api.gpm_support.function = [](DeviceHandle, GpmSupport* out) {
    EXPECT_EQ(out->version, 1U);
    return out->supported = 1, kSuccess;
  };
  api.gpm_sample_alloc.function = [](GpmSample* out) {
    return *out = reinterpret_cast<GpmSample>(&gpm_driver.samples.at(gpm_driver.allocated++)),
           kSuccess;
  };
  api.gpm_sample_free.function = [](GpmSample) { return ++gpm_driver.freed, kSuccess; };
  api.gpm_sample_get.function = [](DeviceHandle, GpmSample) { return gpm_driver.get; };
  api.gpm_metrics_get.function = [](GpmMetricsGet* question) {
    gpm_driver.older = question->sample1;
    gpm_driver.newer = question->sample2;
    for (unsigned i = 0; i < question->count; ++i) {
      GpmMetric& metric = question->metrics[i];
      metric.value = metric.id == kGpmTensor ? gpm_driver.tensor : 1;
      metric.code = metric.id == kGpmFp64 ? kNotSupported : kSuccess;
    }
    return kSuccess;
  };
  return api;
}

class GpmTest : public ::testing::Test {
 protected:
  Sample read_after(Duration since_start) {
    Sample sample;
    gpm_.read(nullptr, Recorder(support_, sample, kStart + since_start));
    return sample;
  }
  static MissingReason why(const Sample& sample, Metric metric) {
    return sample.find(metric)->missing()->reason;
  }

  const Api api_ = gpm_api();
  SupportMemory support_;
  Gpm gpm_{api_};
};

using std::chrono::milliseconds;

TEST_F(GpmTest, TheFirstTimeThereIsNothingToCompareWith) {
  EXPECT_EQ(why(read_after(milliseconds(0)), Metric::gpm_tensor), MissingReason::not_ready);
}

TEST_F(GpmTest, BetweenTwoSamplesEachPipeHasItsShare) {
  read_after(milliseconds(0));
  const Sample sample = read_after(milliseconds(100));
  EXPECT_EQ(*sample.number(Metric::gpm_tensor), 12'346);
  EXPECT_EQ(*sample.number(Metric::gpm_sm), 1'000);
  EXPECT_EQ(why(sample, Metric::gpm_fp64), MissingReason::not_supported);
}

TEST_F(GpmTest, TooSoonAfterTheLastSampleTheOlderOneIsKept) {
  read_after(milliseconds(0));
  EXPECT_EQ(why(read_after(milliseconds(99)), Metric::gpm_tensor), MissingReason::not_ready);
  EXPECT_NE(read_after(milliseconds(100)).number(Metric::gpm_tensor), nullptr);
}

TEST_F(GpmTest, TheNewerSampleIsTheOlderOneNextTime) {
  read_after(milliseconds(0));
  read_after(milliseconds(100));
  const GpmSample newer = gpm_driver.newer;
  read_after(milliseconds(200));
  EXPECT_EQ(gpm_driver.older, newer);
  EXPECT_EQ(gpm_driver.allocated, 2U);
}

TEST_F(GpmTest, WhatIsNoShareIsImplausible) {
  read_after(milliseconds(0));
  gpm_driver.tensor = std::nan("");
  EXPECT_EQ(why(read_after(milliseconds(100)), Metric::gpm_tensor), MissingReason::failed);
  gpm_driver.tensor = 100.5;
  EXPECT_EQ(why(read_after(milliseconds(200)), Metric::gpm_tensor), MissingReason::failed);
}

TEST_F(GpmTest, AGpuThatWasLostIsNotComparedWithItsFormerLife) {
  read_after(milliseconds(0));
  gpm_driver.get = kGpuIsLost;
  EXPECT_EQ(why(read_after(milliseconds(100)), Metric::gpm_dram), MissingReason::device_lost);
  gpm_driver.get = kSuccess;
  EXPECT_EQ(why(read_after(milliseconds(200)), Metric::gpm_dram), MissingReason::not_ready);
  EXPECT_NE(read_after(milliseconds(300)).number(Metric::gpm_dram), nullptr);
}

TEST(Gpm, GivesItsSamplesBack) {
  const Api api = gpm_api();
  {
    Gpm gpm(api);
    SupportMemory support;
    Sample sample;
    gpm.read(nullptr, Recorder(support, sample, kStart));
    gpm.read(nullptr, Recorder(support, sample, kStart + std::chrono::seconds(1)));
  }
  EXPECT_EQ(gpm_driver.freed, 2);
}

TEST(Gpm, OfAGpuBeforeHopperIsNotSupported) {
  Api api = gpm_api();
  api.gpm_support.function = [](DeviceHandle, GpmSupport* out) {
    return out->supported = 0, kSuccess;
  };
  Gpm gpm(api);
  SupportMemory support;
  Sample sample;
  gpm.read(nullptr, Recorder(support, sample, kStart));
  for (const Metric metric : row_of(Probe::gpm).fills) {
    EXPECT_EQ(sample.find(metric)->missing()->reason, MissingReason::not_supported);
  }
  EXPECT_EQ(gpm_driver.allocated, 0U);
}

}  // namespace
}  // namespace gpuyard::nvml
