// Calls for which a client waits: events, and two GPM samples that make a measurement.
#include <gtest/gtest.h>

#include "sim_nvml/client_for_tests.h"

namespace gpuyard::sim_nvml {
namespace {

using namespace gpuyard::nvml;

class EventTest : public AbiTest {
 protected:
  EventSet registered(unsigned gpu, unsigned long long types) {
    EventSet set = nullptr;
    EXPECT_EQ(nvmlEventSetCreate(&set), kSuccess);
    EXPECT_EQ(nvmlDeviceRegisterEvents(device(gpu), types, set), kSuccess);
    return set;
  }
  void raise(unsigned gpu, std::uint64_t type, std::uint64_t data) {
    writer_->log_event({.type = type, .data = data, .gpu = gpu});
  }
  GpmSample sample_of(unsigned gpu) {
    GpmSample sample = nullptr;
    EXPECT_EQ(nvmlGpmSampleAlloc(&sample), kSuccess);
    EXPECT_EQ(nvmlGpmSampleGet(device(gpu), sample), kSuccess);
    return sample;
  }
  void pass(int milliseconds) {
    for (int i = 0; i < milliseconds / 10; ++i) sim::step(world_, sim::kStep);
    writer_->publish(world_);
  }
};

TEST_F(EventTest, EventReachesRegisteredSet) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  raise(1, kEventXid, 13);  // before there was a set
  const EventSet set = registered(1, kEventXid | kEventDoubleBitEcc);
  raise(0, kEventXid, 31);          // another GPU
  raise(1, kEventSingleBitEcc, 0);  // another kind
  raise(1, kEventXid, 79);
  EventData event;
  EXPECT_EQ(nvmlEventSetWait_v2(set, &event, 0), kSuccess);
  EXPECT_EQ(event.device, device(1));
  EXPECT_EQ(event.type, kEventXid);
  EXPECT_EQ(event.data, 79U);
  EXPECT_EQ(nvmlEventSetWait_v2(set, &event, 0), kTimeout);
  raise(1, kEventDoubleBitEcc, 0);
  EventDataV1 older;
  EXPECT_EQ(nvmlEventSetWait(set, &older, 0), kSuccess);
  EXPECT_EQ(older.type, kEventDoubleBitEcc);
  EXPECT_EQ(nvmlEventSetFree(set), kSuccess);
  EXPECT_EQ(nvmlEventSetFree(set), kInvalidArgument);
  EXPECT_EQ(nvmlEventSetWait_v2(set, &event, 0), kInvalidArgument);
}

TEST_F(EventTest, AWaitLastsItsTimeoutAndNotLonger) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  const EventSet set = registered(0, kEventXid);
  EventData event;
  const TimePoint before = BootClock::now();
  EXPECT_EQ(nvmlEventSetWait_v2(set, &event, 35), kTimeout);
  const auto waited = to_milliseconds(BootClock::now() - before);
  EXPECT_GE(waited, 35);
  EXPECT_LT(waited, 500);
  EXPECT_EQ(nvmlEventSetFree(set), kSuccess);
}

TEST_F(EventTest, OneUnsupportedTypeAndNoneIsRegistered) {
  replace_world("rtx4090");
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  EventSet set = nullptr;
  ASSERT_EQ(nvmlEventSetCreate(&set), kSuccess);
  EXPECT_EQ(nvmlDeviceRegisterEvents(device(0), kEventXid | 0x4000'0000, set), kNotSupported);
  raise(0, kEventXid, 79);
  EventData event;
  EXPECT_EQ(nvmlEventSetWait_v2(set, &event, 0), kTimeout);
  EXPECT_EQ(nvmlEventSetFree(set), kSuccess);
}

TEST_F(EventTest, ALostGpuEndsTheWaitAtOnce) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  const EventSet set = registered(2, kEventXid);
  sim::Fault fault;
  fault.lost = 1;
  break_gpu(2, fault);
  EventData event;
  EXPECT_EQ(nvmlEventSetWait_v2(set, &event, 60'000), kGpuIsLost);
  EXPECT_EQ(nvmlEventSetFree(set), kSuccess);
}

TEST_F(EventTest, TwoSamplesMakeSharesAndRates) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  GpmMetricsGet get;
  get.sample1 = sample_of(0);
  pass(200);
  get.sample2 = sample_of(0);
  get.count = 4;
  get.metrics[0].id = kGpmGraphics;
  get.metrics[1].id = kGpmNvlinkTx;
  get.metrics[2].id = 104;  // a chip-to-chip link, which an H100 lacks
  get.metrics[3].id = 0;
  get.metrics[4].id = kGpmSm;
  get.metrics[4].code = 77;
  for (const unsigned version : {1U, 0x01003430U}) {
    get.version = version;
    ASSERT_EQ(nvmlGpmMetricsGet(&get), kSuccess);
    EXPECT_NEAR(get.metrics[0].value, 90, 1);
    EXPECT_EQ(get.metrics[1].code, kSuccess);
    EXPECT_EQ(get.metrics[2].code, kNotSupported);
    EXPECT_EQ(get.metrics[3].code, kInvalidArgument);
    EXPECT_EQ(get.metrics[4].code, 77);
  }
  get.version = 2;
  EXPECT_EQ(nvmlGpmMetricsGet(&get), kArgumentVersionMismatch);
}

TEST_F(EventTest, CloseOrMismatchedGpmSamplesGiveNoMetric) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  GpmMetricsGet get;
  get.sample1 = sample_of(0);
  pass(50);
  get.sample2 = sample_of(0);
  get.count = 1;
  get.metrics[0].id = kGpmGraphics;
  ASSERT_EQ(nvmlGpmMetricsGet(&get), kSuccess);
  EXPECT_EQ(get.metrics[0].code, kNoData);
  get.sample2 = sample_of(1);
  EXPECT_EQ(nvmlGpmMetricsGet(&get), kInvalidArgument);
  EXPECT_EQ(nvmlGpmSampleFree(get.sample2), kSuccess);
  EXPECT_EQ(nvmlGpmMetricsGet(&get), kInvalidArgument);
}

TEST_F(EventTest, BeforeHopperThereIsNoGpm) {
  replace_world("a100");
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  GpmSupport support;
  EXPECT_EQ(nvmlGpmQueryDeviceSupport(device(0), &support), kSuccess);
  EXPECT_EQ(support.supported, 0U);
  GpmSample sample = nullptr;
  ASSERT_EQ(nvmlGpmSampleAlloc(&sample), kSuccess);
  EXPECT_EQ(nvmlGpmSampleGet(device(0), sample), kNotSupported);
  EXPECT_EQ(nvmlGpmSampleFree(sample), kSuccess);
}

}  // namespace
}  // namespace gpuyard::sim_nvml
