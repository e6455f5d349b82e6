#include "faces/protocol/resources.h"

#include <gtest/gtest.h>

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "faces/protocol/routes.h"
#include "gpu/device/catalog.h"
#include "gpu/device/gpu_snapshot.h"

namespace gpuyard::protocol {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1024} * 1024;
constexpr TimePoint kNow{std::chrono::seconds(100)};

DeviceState gpu() {
  DeviceState device;
  device.info = {"GPU-1", 1, "GPU-1", "0000:01:00.0", "NVIDIA H100 80GB HBM3", {}};
  for (const auto& [metric, value] :
       std::vector<std::pair<Metric, std::int64_t>>{{Metric::memory_total, 81'559 * kMiB},
                                                    {Metric::memory_free, 81'000 * kMiB - 1},
                                                    {Metric::memory_used, 559 * kMiB + 1},
                                                    {Metric::utilization_gpu, 0},
                                                    {Metric::temperature_core, 31},
                                                    {Metric::power_draw, 312'500},
                                                    {Metric::energy_total, 7}}) {
    device.sample.set({metric, 0, kNow, value});
  }
  return device;
}

void set_missing(DeviceState& device, Metric metric, Missing why) {
  device.sample.set({metric, 0, kNow, std::move(why)});
}

TEST(GPUDevice, JsonMatchesContractWithMemoryInMebibytes) {
  RecordProperty("contract", "E2 A4 A5 A7");
  EXPECT_EQ(json::to_json(gpu_device_of(gpu())),
            R"({"index":1,"name":"NVIDIA H100 80GB HBM3","total_memory_mb":81559,)"
            R"("free_memory_mb":80999,"used_memory_mb":559,"utilization_percent":0,)"
            R"("temperature_c":31,"is_available":true,"error_message":null})");
}

TEST(GPUDevice, UnsupportedReadingIsNullAndGpuIsAvailable) {
  RecordProperty("contract", "E2 A8");
  DeviceState device = gpu();
  set_missing(device, Metric::utilization_gpu, {MissingReason::not_supported, ""});
  const GPUDevice shown = gpu_device_of(device);
  EXPECT_EQ(shown.utilization_percent, std::nullopt);
  EXPECT_EQ(shown.temperature_c, 31);
  EXPECT_TRUE(shown.is_available);
  EXPECT_EQ(shown.error_message, std::nullopt);
}

TEST(GPUDevice, UnsupportedMemoryIsNullAndGpuAvailable) {
  DeviceState device = gpu();
  set_missing(device, Metric::memory_total, {MissingReason::not_supported, ""});
  EXPECT_EQ(gpu_device_of(device).total_memory_mb, std::nullopt);
  EXPECT_TRUE(gpu_device_of(device).is_available);
}

TEST(GPUDevice, UnreadableMemoryMakesGpuUnavailableWithNulls) {
  RecordProperty("contract", "E2 E10");
  DeviceState device = gpu();
  set_missing(device, Metric::memory_total, {MissingReason::failed, "Unknown Error"});
  EXPECT_EQ(json::to_json(gpu_device_of(device)),
            R"({"index":1,"name":"NVIDIA H100 80GB HBM3","total_memory_mb":null,)"
            R"("free_memory_mb":null,"used_memory_mb":null,"utilization_percent":null,)"
            R"("temperature_c":null,"is_available":false,"error_message":"Unknown Error"})");
}

TEST(GPUDevice, AfterTheDeadlineOldValuesAreNotShown) {
  RecordProperty("contract", "E2");
  DeviceState device = gpu();
  set_missing(device, Metric::memory_total, {MissingReason::timed_out, ""});
  const GPUDevice shown = gpu_device_of(device);
  EXPECT_FALSE(shown.is_available);
  EXPECT_EQ(shown.error_message, "the driver did not respond in time");
  EXPECT_EQ(shown.temperature_c, std::nullopt);
}

TEST(GPUDevice, UnopenedGpuHasReasonAndNoName) {
  DeviceState device;
  device.info = {"index:2", 2, "", "", "", Missing{MissingReason::device_lost, "GPU is lost"}};
  const GPUDevice shown = gpu_device_of(device);
  EXPECT_EQ(shown.index, 2U);
  EXPECT_EQ(shown.name, std::nullopt);
  EXPECT_EQ(shown.error_message, "GPU is lost");
}

TEST(GPUDevice, AGpuThatWasNeverReadIsNotAvailable) {
  DeviceState device = gpu();
  device.sample = {};
  EXPECT_EQ(gpu_device_of(device).error_message, "not read yet");
}

TEST(GPUDevicesResponse, IsAListWithItsCount) {
  EXPECT_EQ(json::to_json(GPUDevicesResponse{}), R"({"devices":[],"count":0})");
}

TEST(DriverInfo, HasThreeVersions) {
  RecordProperty("contract", "E4");
  EXPECT_EQ(json::to_json(driver_info_of({"535.104.05", "12.2", "12.535.104", "/lib/nvml.so"})),
            R"({"driver_version":"535.104.05","cuda_driver_version":"12.2",)"
            R"("nvml_version":"12.535.104"})");
}

TEST(DriverInfo, UnknownVersionIsNull) {
  EXPECT_EQ(json::to_json(driver_info_of({})),
            R"({"driver_version":null,"cuda_driver_version":null,"nvml_version":null})");
}

TEST(Device, SaysWhyEachReadingIsNull) {
  DeviceState state = gpu();
  set_missing(state, Metric::power_limit, {MissingReason::no_permission, ""});
  const Device device = device_of(state, kNow);
  EXPECT_EQ(describe(device.missing.at("clock_sm_mhz")), "not read yet");
  EXPECT_EQ(describe(device.missing.at("power_limit_w")), "no permission");
  EXPECT_EQ(describe(device.missing.at("processes")), "not read yet");
  EXPECT_FALSE(device.missing.contains("power_draw_w"));
}

TEST(Device, EveryReadingIsANumberOrHasAReason) {
  const Device device = device_of(gpu(), kNow);
  for (const MetricRow& row : catalog()) {
    if (row.subject != MetricSubject::device) continue;
    EXPECT_NE(device.readings.number(row.metric) != nullptr, device.missing.contains(json_key(row)))
        << row.key;
  }
}

TEST(Device, UnqueriedReadingHasNoReason) {
  constexpr ProbeSet kQueried = {Probe::power, Probe::power_limit};
  DeviceState state = gpu();
  const Device device = device_of(state, kNow, nullptr, kQueried);
  EXPECT_TRUE(device.missing.contains("power_limit_w"));
  EXPECT_FALSE(device.missing.contains("clock_sm_mhz"));
  state.info.fault = Missing{MissingReason::device_lost, "GPU is lost"};
  EXPECT_EQ(device_of(state, kNow, nullptr, kQueried).missing.at("clock_sm_mhz").detail,
            "GPU is lost");
}

TEST(Device, HealthHasReasonsAndUnknownIsNull) {
  RecordProperty("contract", "A10");
  DeviceState state = gpu();
  EXPECT_NE(json::to_json(device_of(state, kNow)).find(R"("health":null,"health_reasons":[])"),
            std::string::npos);
  state.health = {gpuyard::Health::degraded, {"temperature 80 C is above 75 C"}};
  const std::string text = json::to_json(device_of(state, kNow));
  EXPECT_NE(text.find(R"("health":"degraded","health_reasons":["temperature 80 C is above 75 C"])"),
            std::string::npos)
      << text;
}

TEST(Device, ListsItsProcesses) {
  DeviceState state = gpu();
  const GpuProcess process{4711, ProcessKind::compute, 1024, std::nullopt};
  state.sample.set(ProcessList{kNow, std::vector{process}});
  const Device device = device_of(state, kNow);
  EXPECT_FALSE(device.missing.contains("processes"));
  ASSERT_EQ(device.processes->size(), 1U);
  EXPECT_EQ(device.processes->front().pid, 4711U);
  EXPECT_EQ(device.processes->front().memory_bytes, 1024);
  EXPECT_EQ(device.processes->front().sm_percent, std::nullopt);
}

TEST(Device, OneMissingElementHasItsOwnReason) {
  DeviceState state = gpu();
  state.sample.set({Metric::fan_speed, 0, kNow, std::int64_t{30}});
  state.sample.set({Metric::fan_speed, 1, kNow, Missing{MissingReason::no_permission, ""}});
  EXPECT_EQ(describe(device_of(state, kNow).missing.at("fan_speed_percent/1")), "no permission");
}

TEST(Device, AgeIsOldestPerTickReading) {
  DeviceState state = gpu();
  state.sample.set({Metric::clock_sm, 0, kNow - std::chrono::seconds(4), std::int64_t{1}});
  state.sample.set({Metric::serial, 0, kNow - std::chrono::seconds(60), "1"});
  EXPECT_EQ(device_of(state, kNow + std::chrono::seconds(1)).age_ms, 5000);
}

TEST(Device, ThatWasNeverReadHasNoAge) {
  DeviceState state = gpu();
  state.sample = {};
  EXPECT_EQ(device_of(state, kNow).age_ms, std::nullopt);
}

TEST(Snapshot, SurvivesJsonExactly) {
  gpuyard::Snapshot made;
  made.generation = 12;
  made.taken = kNow;
  made.wall = WallTime(std::chrono::milliseconds(1'700'000'000'250));
  made.driver = {true, "", {"535.104.05", "12.2", {}, "lib"}};
  made.devices = {gpu(), gpu()};
  made.devices[1].condition = DeviceCondition::unresponsive;
  made.devices[1].why = "the driver did not respond in time";
  const std::string text = json::to_json(snapshot_of(made));
  const auto read = json::from_json<Snapshot>(text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(json::to_json(*read), text);
}

TEST(Snapshot, WithoutADriverSaysWhyAndHasNoDevices) {
  gpuyard::Snapshot made;
  made.driver.why = "Driver Not Loaded";
  EXPECT_EQ(
      json::to_json(snapshot_of(made)),
      R"({"schema":1,"simulated":false,"generation":0,"taken_at":"1970-01-01T00:00:00.000Z",)"
      R"("driver_initialised":false,"driver_error":"Driver Not Loaded","driver":)"
      R"({"driver_version":null,"cuda_driver_version":null,"nvml_version":null},"devices":[],"past":null})");
}

gpuyard::Snapshot initialised(std::size_t gpus) {
  gpuyard::Snapshot snapshot;
  snapshot.driver.initialised = true;
  snapshot.devices.resize(gpus);
  return snapshot;
}

TEST(Readiness, MissingDriverIsNotReadyWithDriverError) {
  gpuyard::Snapshot snapshot;
  snapshot.driver.why = "Driver Not Loaded";
  EXPECT_EQ(json::to_json(readiness_of(snapshot)),
            R"({"ready":false,"reason":"Driver Not Loaded","cuda_available":false,"gpus":0,)"
            R"("simulated":false,"notes":[],"now":null,"reads_kernel_log":null,"lacks":null})");
}

TEST(Readiness, CudaNeedsADriverAndAGpu) {
  RecordProperty("contract", "E10 E16");
  EXPECT_TRUE(readiness_of(initialised(1)).cuda_available);
  EXPECT_FALSE(readiness_of(initialised(0)).cuda_available);
  EXPECT_TRUE(readiness_of(initialised(0)).ready);
  gpuyard::Snapshot lost_driver = initialised(1);
  lost_driver.driver.initialised = false;
  EXPECT_FALSE(readiness_of(lost_driver).cuda_available);
}

TEST(Readiness, SaysWhenTheFleetIsSimulated) {
  gpuyard::Snapshot snapshot = initialised(1);
  snapshot.driver.info.simulated = true;
  EXPECT_EQ(readiness_of(snapshot).reason, "serving simulated GPUs");
}

}  // namespace
}  // namespace gpuyard::protocol
