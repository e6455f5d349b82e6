#include "gpu/nvml/nvml_backend.h"

#include <climits>

#include <gtest/gtest.h>

#include "gpu/device/catalog.h"
#include "gpu/nvml/api.h"
#include "gpu/nvml/fake_nvml_for_tests.h"

namespace gpuyard::nvml {
namespace {

// Opens every GPU in turn; the driver-host does so with a thread for each.
Result<Inventory> enumerate(Backend& backend) {
  auto session = backend.start();
  if (!session) return std::move(session).error();
  Inventory fleet{session->driver, {}};
  for (std::uint32_t i = 0; i < session->gpu_count; ++i) fleet.devices.push_back(backend.open(i));
  return fleet;
}

class NvmlBackendTest : public ::testing::Test {
 protected:
  NvmlBackend backend_{{healthy_api(), "/lib/libnvidia-ml.so.1"}};

  // Opens the GPUs and reads the first once.
  Sample read(ProbeSet probes) {
    EXPECT_TRUE(enumerate(backend_).ok());
    return backend_.read("GPU-0", probes);
  }
  static const Missing& missing(const Sample& sample, Metric metric) {
    static const Missing none{MissingReason::not_ready, "not in the sample"};
    const Reading* reading = sample.find(metric);
    return reading != nullptr && reading->missing() != nullptr ? *reading->missing() : none;
  }
};

TEST_F(NvmlBackendTest, EnumerationGivesIdentityAndVersions) {
  RecordProperty("contract", "A4 E4");
  const auto fleet = enumerate(backend_);
  ASSERT_TRUE(fleet.ok());
  EXPECT_EQ(fleet->driver.driver_version, "535.104.05");
  EXPECT_EQ(fleet->driver.cuda_driver_version, "12.2");
  EXPECT_EQ(fleet->driver.nvml_version, "12.535.104");
  ASSERT_EQ(fleet->devices.size(), 2U);
  EXPECT_EQ(fleet->devices[1],
            (DeviceInfo{"GPU-1", 1, "GPU-1", "0000:02:00.0", "NVIDIA H100 80GB HBM3", {}}));
}

TEST_F(NvmlBackendTest, EveryProbeFillsItsRows) {
  RecordProperty("contract", "A5 A6 A7 A8 C18");
  const Sample sample = read(probes_of(Tier::fast) | probes_of(Tier::slow));
  EXPECT_EQ(*sample.number(Metric::memory_total), 80LL << 30U);
  EXPECT_EQ(*sample.number(Metric::memory_free), 60LL << 30U);
  EXPECT_EQ(*sample.number(Metric::utilization_gpu), 35);
  EXPECT_EQ(*sample.number(Metric::temperature_core), 61);
  EXPECT_EQ(*sample.number(Metric::power_draw), 312'500);
  EXPECT_EQ(*sample.number(Metric::power_limit), 700'000);
  EXPECT_EQ(*sample.number(Metric::energy_total), 123'456'789);
  EXPECT_EQ(*sample.number(Metric::clock_sm), 1755);
}

TEST_F(NvmlBackendTest, OlderDriverTemperatureUsesOlderCall) {
  fake.codes["temperature_v"] = kFunctionNotFound;
  EXPECT_EQ(*read({Probe::temperature}).number(Metric::temperature_core), 61);
}

TEST_F(NvmlBackendTest, NegativeTemperatureIsRead) {
  fake.celsius = -5;
  EXPECT_EQ(*read({Probe::temperature}).number(Metric::temperature_core), -5);
}

TEST_F(NvmlBackendTest, TheOlderCallsUnsignedTemperatureIsMeantSigned) {
  fake.codes["temperature_v"] = kFunctionNotFound;
  fake.celsius = -5;
  EXPECT_EQ(*read({Probe::temperature}).number(Metric::temperature_core), -5);
}

TEST_F(NvmlBackendTest, AllOnesMeansNotAvailableInEveryCounter) {
  fake.memory = {ULLONG_MAX, ULLONG_MAX, ULLONG_MAX};
  fake.power_mw = fake.limit_mw = fake.sm_mhz = UINT_MAX;
  fake.energy_mj = ULLONG_MAX;
  const Sample sample =
      read({Probe::memory, Probe::power, Probe::power_limit, Probe::clocks, Probe::energy});
  for (const Metric metric : {Metric::memory_total, Metric::power_draw, Metric::power_limit,
                              Metric::clock_sm, Metric::energy_total}) {
    EXPECT_EQ(missing(sample, metric).reason, MissingReason::failed) << row_of(metric).key;
  }
}

TEST_F(NvmlBackendTest, ReadingTimePrecedesDriverCall) {
  static TimePoint inside_the_call;
  Api api = healthy_api();
  api.power_usage = {[](DeviceHandle, unsigned* out) {
    inside_the_call = BootClock::now();
    *out = 1;
    return kSuccess;
  }};
  NvmlBackend backend({api, ""});
  ASSERT_TRUE(enumerate(backend).ok());
  const Sample sample = backend.read("GPU-0", {Probe::power});
  EXPECT_LE(sample.find(Metric::power_draw)->taken, inside_the_call);
}

TEST_F(NvmlBackendTest, SecondGpuWithSameUuidHasFault) {
  Api api = healthy_api();
  api.uuid = {[](DeviceHandle, char* out, unsigned size) {
    return put_text("uuid", "GPU-same", out, size);
  }};
  NvmlBackend backend({api, ""});
  const auto fleet = enumerate(backend);
  ASSERT_TRUE(fleet.ok());
  EXPECT_FALSE(fleet->devices[0].fault);
  EXPECT_EQ(fleet->devices[1].fault->detail, "another GPU has the same UUID");
}

TEST_F(NvmlBackendTest, GpuWithoutUuidIsListedWithReason) {
  Api api = healthy_api();
  api.uuid = {
      [](DeviceHandle, char* out, unsigned size) { return put_text("uuid", "", out, size); }};
  NvmlBackend backend({api, ""});
  EXPECT_EQ(enumerate(backend)->devices[0].fault->detail, "the driver reports no UUID for it");
}

TEST_F(NvmlBackendTest, FailedOpenMaySucceedLater) {
  fake.handle_codes[0] = kUnknown;
  ASSERT_TRUE(enumerate(backend_).ok());
  fake.handle_codes.clear();
  EXPECT_FALSE(backend_.open(0).fault);
  EXPECT_NE(backend_.read("GPU-0", {Probe::power}).number(Metric::power_draw), nullptr);
}

TEST_F(NvmlBackendTest, NonsenseFromDriverIsFailure) {
  fake.memory.free = fake.memory.total + 1;
  fake.utilization.gpu = 101;
  const Sample sample = read({Probe::memory, Probe::utilization});
  EXPECT_EQ(missing(sample, Metric::memory_used).reason, MissingReason::failed);
  EXPECT_EQ(missing(sample, Metric::utilization_gpu).reason, MissingReason::failed);
}

TEST_F(NvmlBackendTest, UnopenedGpuIsListedWithFault) {
  RecordProperty("contract", "E6 A13");
  fake.handle_codes[0] = kUnknown;
  const auto fleet = enumerate(backend_);
  ASSERT_TRUE(fleet.ok());
  ASSERT_EQ(fleet->devices.size(), 2U);
  EXPECT_EQ(fleet->devices[0].fault, (Missing{MissingReason::failed, "Unknown Error"}));
  EXPECT_FALSE(fleet->devices[1].fault.has_value());
}

TEST_F(NvmlBackendTest, GpuWithoutNameIsListedWithReason) {
  fake.codes["name"] = kGpuIsLost;
  const auto fleet = enumerate(backend_);
  ASSERT_TRUE(fleet.ok());
  EXPECT_EQ(fleet->devices[0].fault->reason, MissingReason::device_lost);
  EXPECT_EQ(fleet->devices[0].uuid, "GPU-0");
}

TEST_F(NvmlBackendTest, UnavailableVersionsAreEmpty) {
  RecordProperty("contract", "E4 E7");
  fake.codes = {
      {"driver_version", kUnknown}, {"nvml_version", kUnknown}, {"cuda_driver_version", kUnknown}};
  const auto fleet = enumerate(backend_);
  ASSERT_TRUE(fleet.ok());
  EXPECT_FALSE(fleet->driver.driver_version);
  EXPECT_FALSE(fleet->driver.nvml_version);
  EXPECT_FALSE(fleet->driver.cuda_driver_version);
}

TEST_F(NvmlBackendTest, AFailedInitialisationSaysWhy) {
  RecordProperty("contract", "A14 E5 E10");
  fake.codes["init"] = kDriverNotLoaded;
  const auto fleet = enumerate(backend_);
  ASSERT_FALSE(fleet.ok());
  EXPECT_EQ(fleet.error().message, "failed to initialise NVML: Driver Not Loaded");
  EXPECT_EQ(fleet.error().code, Errc::unavailable);
}

TEST_F(NvmlBackendTest, WithoutPermissionTheErrorIsDenied) {
  RecordProperty("contract", "A14");
  fake.codes["init"] = kNoPermission;
  EXPECT_EQ(enumerate(backend_).error(),
            (Error{Errc::denied, "failed to initialise NVML: Insufficient Permissions"}));
}

TEST_F(NvmlBackendTest, FailedDeviceCountLeavesUninitialised) {
  RecordProperty("contract", "E5 E10");
  fake.codes["count"] = kUnknown;
  EXPECT_EQ(enumerate(backend_).error().message, "NVML query failed: Unknown Error");
  EXPECT_EQ(fake.shutdowns, 1);
}

TEST_F(NvmlBackendTest, RepeatedEnumerationInitialisesNvmlOnce) {
  RecordProperty("contract", "E5");
  ASSERT_TRUE(enumerate(backend_).ok());
  ASSERT_TRUE(enumerate(backend_).ok());
  EXPECT_EQ(fake.inits, 1);
}

TEST_F(NvmlBackendTest, ShutdownRunsOnceAfterSuccessfulInit) {
  RecordProperty("contract", "E5 E10");
  backend_.shutdown();
  EXPECT_EQ(fake.shutdowns, 0);
  ASSERT_TRUE(enumerate(backend_).ok());
  backend_.shutdown();
  backend_.shutdown();
  EXPECT_EQ(fake.shutdowns, 1);
}

TEST_F(NvmlBackendTest, AnUnknownGpuIsMissingNotACrash) {
  const Sample before_opening = backend_.read("GPU-0", {Probe::power});
  EXPECT_EQ(missing(before_opening, Metric::power_draw).reason, MissingReason::device_lost);
  ASSERT_TRUE(enumerate(backend_).ok());
  EXPECT_EQ(missing(backend_.read("GPU-9", {Probe::power}), Metric::power_draw).reason,
            MissingReason::device_lost);
}

TEST_F(NvmlBackendTest, NoGpuIsAnEmptyFleet) {
  RecordProperty("contract", "E6 E10");
  fake.device_count = 0;
  const auto fleet = enumerate(backend_);
  ASSERT_TRUE(fleet.ok());
  EXPECT_TRUE(fleet->devices.empty());
}

}  // namespace
}  // namespace gpuyard::nvml
