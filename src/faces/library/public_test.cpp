// libgpuyard as its users have it: through its headers, on a fake fleet.
#include <chrono>
#include <optional>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "gpuyard/gpuyard.h"

namespace {

using namespace std::chrono_literals;
using gpuyard::Device;
using gpuyard::FakeFleet;
using gpuyard::GPUDevice;
using gpuyard::Health;
using gpuyard::MissingReason;
using gpuyard::MockBuilder;
using gpuyard::Monitor;

constexpr std::uint64_t kMemory = 80'000'000'000;

Monitor open(const FakeFleet& fleet, const gpuyard::MonitorOptions& options = {}) {
  auto monitor = Monitor::open(fleet, options);
  EXPECT_TRUE(monitor.ok());
  return *std::move(monitor);
}

class Library : public ::testing::Test {
 protected:
  ~Library() override {
    for (std::uint32_t i = 0; i < 4; ++i) fleet_.unblock(i);
  }
  FakeFleet fleet_ = FakeFleet::with_healthy_gpus(4, kMemory);
};

TEST_F(Library, SeesAHealthyFleet) {
  RecordProperty("contract", "A1 A3 A4 A5 A6 A7 A8 A9 A15");
  const auto gpus = open(fleet_).snapshot();
  ASSERT_EQ(gpus.size(), 4U);
  EXPECT_EQ(gpus[2], (gpuyard::GpuSnapshot{2, kMemory, 0, 40, 0, 0}));
}

TEST_F(Library, AChangeOfTheFleetShowsInTheNextSnapshot) {
  RecordProperty("contract", "A15 A9");
  const Monitor monitor = open(fleet_);
  FakeFleet copy = fleet_;
  copy.set_memory_used(1, 30'000'000'000);
  copy.set_temperature(1, 71);
  copy.inject_ecc_error(1);
  EXPECT_TRUE(copy.set_number(1, "utilization_gpu_percent", 93));
  EXPECT_EQ(monitor.snapshot()[1], (gpuyard::GpuSnapshot{1, kMemory, 30'000'000'000, 71, 93, 1}));
}

TEST_F(Library, LostGpuIsListedUnavailableUntilReplugged) {
  RecordProperty("contract", "A3 A10 A12 A13 A15");
  const Monitor monitor = open(fleet_);
  fleet_.remove_gpu(1);
  EXPECT_EQ(monitor.gpu_count(), 4U);
  EXPECT_EQ(monitor.snapshot().size(), 3U);
  const Device lost = monitor.inventory().at(1);
  EXPECT_EQ(lost.condition, Device::Condition::unavailable);
  EXPECT_EQ(lost.why, "GPU is lost");
  EXPECT_EQ(lost.health.verdict, Health::unhealthy);
  EXPECT_EQ(lost.find("temperature_core_celsius")->missing()->reason, MissingReason::device_lost);
  fleet_.replug_gpu(1);
  EXPECT_EQ(monitor.snapshot().size(), 4U);
}

TEST_F(Library, MissingTemperatureHidesGpuButListsReason) {
  RecordProperty("contract", "A3");
  const gpuyard::Missing why{MissingReason::no_permission, "Insufficient Permissions"};
  ASSERT_TRUE(fleet_.set_missing(2, "temperature_core_celsius", why));
  const Monitor monitor = open(fleet_);
  EXPECT_EQ(monitor.snapshot().size(), 3U);
  EXPECT_EQ(*monitor.inventory().at(2).find("temperature_core_celsius")->missing(), why);
  EXPECT_EQ(describe(why), "Insufficient Permissions");
}

TEST_F(Library, HealthIsEvaluatedAtEachCall) {
  RecordProperty("contract", "A10 A9");
  const Monitor monitor = open(fleet_);
  EXPECT_EQ(monitor.health(0)->verdict, Health::healthy);
  fleet_.set_temperature(0, 80);
  EXPECT_EQ(monitor.health(0)->verdict, Health::degraded);
  fleet_.inject_ecc_error(0);
  const auto bad = monitor.health(0);
  EXPECT_EQ(bad->verdict, Health::unhealthy);
  EXPECT_EQ(bad->reasons.back(), "1 new uncorrectable ECC error");
  EXPECT_TRUE(monitor.acknowledge_ecc_errors(0));
  EXPECT_EQ(monitor.health(0)->verdict, Health::degraded);
  EXPECT_EQ(monitor.health(4).error().message, "GPU index 4 is out of range");
  EXPECT_EQ(monitor.acknowledge_ecc_errors(4).error().code, gpuyard::Errc::not_found);
  EXPECT_EQ(name_of(Health::degraded), "degraded");
}

TEST_F(Library, ThresholdsMayBeOfOneGpu) {
  RecordProperty("contract", "A10");
  const Monitor monitor = open(
      fleet_,
      {.library = "", .thresholds = {35, 50}, .thresholds_of = {{"1", {90, 95}}}, .deadline = 2s});
  EXPECT_EQ(monitor.health(0)->verdict, Health::degraded);
  EXPECT_EQ(monitor.health(1)->verdict, Health::healthy);
}

TEST_F(Library, EveryReadingIsAValueOrAReason) {
  ASSERT_TRUE(fleet_.set_number(0, "throttle_reasons", 0x4 | 0x20));
  ASSERT_TRUE(fleet_.set_number(0, "ecc_mode", 1));
  ASSERT_TRUE(fleet_.set_number(0, "power_draw_w", 312.5));
  const Device gpu = open(fleet_).inventory().front();
  EXPECT_GT(gpu.readings.size(), 80U);
  EXPECT_EQ(gpu.number("power_draw_w"), 312.5);
  EXPECT_EQ(*gpu.find("ecc_mode")->text(), "enabled");
  EXPECT_EQ(*gpu.find("throttle_reasons")->flags(),
            (std::vector<std::string>{"sw_power_cap", "sw_thermal"}));
  EXPECT_EQ(gpu.find("clock_sm_mhz")->missing()->reason, MissingReason::not_supported);
  EXPECT_EQ(gpu.number("clock_sm_mhz"), std::nullopt);
  EXPECT_EQ(gpu.find("no_such_thing"), nullptr);
  EXPECT_EQ(gpu.find("power_draw_w", "1"), nullptr);
  EXPECT_EQ(gpu.processes, std::nullopt) << "not known";
}

TEST_F(Library, ReadingIsNumberOrOneOfThreeErrors) {
  RecordProperty("contract", "A14");
  ASSERT_TRUE(fleet_.set_number(0, "power_draw_w", 99.5));
  ASSERT_TRUE(fleet_.set_missing(1, "power_draw_w", {MissingReason::failed, "Unknown Error"}));
  const Monitor monitor = open(fleet_);
  EXPECT_EQ(*monitor.read(0, "power_draw_w"), 99.5);
  EXPECT_EQ(monitor.read(1, "power_draw_w").error().message, "NVML query failed: Unknown Error");
  EXPECT_EQ(monitor.read(4, "power_draw_w").error().message, "GPU index 4 is out of range");
  for (const char* key : {"power_limit_w", "serial", "no_such_thing"}) {
    EXPECT_TRUE(monitor.read(0, key).error().message.starts_with(
        "feature not supported on this platform: "))
        << key;
  }
}

TEST_F(Library, InvalidMetricOnFakeIsError) {
  EXPECT_EQ(fleet_.set_number(0, "no_such_thing", 1).error().code, gpuyard::Errc::not_found);
  EXPECT_EQ(fleet_.set_missing(0, "no_such_thing", {}).error().code, gpuyard::Errc::not_found);
  EXPECT_EQ(fleet_.set_number(0, "serial", 1).error().code, gpuyard::Errc::invalid);
  EXPECT_EQ(fleet_.set_number(0, "power_draw_w", 0.0 / 0.0).error().code, gpuyard::Errc::invalid);
  EXPECT_TRUE(fleet_.set_number(99, "power_draw_w", 1)) << "nobody is there to change";
}

TEST_F(Library, DevicesAreListedWithAvailability) {
  RecordProperty("contract", "E10 E16 E2");
  const gpuyard::Missing why{MissingReason::failed, "Unknown Error"};
  ASSERT_TRUE(fleet_.set_missing(1, "memory_total_bytes", why));
  const auto devices = open(fleet_).get_devices();
  ASSERT_EQ(devices.size(), 4U);
  EXPECT_EQ(devices[0], (GPUDevice{0, "Fake GPU", 76'293, 76'293, 0, 0, 40, true, std::nullopt}));
  EXPECT_EQ(devices[1], (GPUDevice{1, "Fake GPU", {}, {}, {}, {}, {}, false, "Unknown Error"}));
  EXPECT_TRUE(devices[2].is_available);
}

TEST_F(Library, DriverVersionsAreReported) {
  RecordProperty("contract", "E10 E16 E4");
  const auto driver = open(fleet_).get_driver_info();
  ASSERT_TRUE(driver);
  EXPECT_EQ(driver->driver_version, "999.99.99");
  EXPECT_EQ(driver->cuda_driver_version, "99.9");
  EXPECT_EQ(driver->nvml_version, "99.999.99");
  EXPECT_FALSE(driver->simulated);
}

TEST(LibraryWithoutGpus, CudaIsNotAvailableAndTheListIsEmpty) {
  RecordProperty("contract", "E10 E16 E6");
  const Monitor monitor = open(FakeFleet::with_healthy_gpus(0, 0));
  EXPECT_FALSE(monitor.is_cuda_available());
  EXPECT_TRUE(monitor.get_devices().empty());
  EXPECT_TRUE(monitor.get_driver_info().ok()) << "the driver itself is there";
}

TEST(LibraryWithoutADriver, DoesNotOpenAndSaysWhy) {
  RecordProperty("contract", "E10 A14");
  const auto monitor = Monitor::open(FakeFleet::without_driver("Driver Not Loaded"));
  ASSERT_FALSE(monitor);
  EXPECT_EQ(monitor.error().message, "failed to initialise NVML: Driver Not Loaded");
  EXPECT_EQ(name_of(monitor.error().code), "unavailable");
  EXPECT_NE(advice_on(monitor.error()).find("modprobe"), std::string::npos);
}

TEST(LibraryWithoutADriver, OpenOrEmptyGivesMonitorWithoutGpus) {
  RecordProperty("contract", "E10 E16 E6");
  const Monitor monitor = Monitor::open_or_none(FakeFleet::without_driver("Driver Not Loaded"));
  EXPECT_EQ(monitor.gpu_count(), 0U);
  EXPECT_FALSE(monitor.is_cuda_available());
  EXPECT_TRUE(monitor.get_devices().empty());
  EXPECT_TRUE(monitor.snapshot().empty());
  EXPECT_TRUE(monitor.inventory().empty());
  EXPECT_TRUE(monitor.collect_metrics().empty());
  EXPECT_EQ(monitor.get_driver_info().error().message,
            "failed to initialise NVML: Driver Not Loaded");
  EXPECT_EQ(monitor.read(0, "power_draw_w").error().message, "GPU index 0 is out of range");
  EXPECT_FALSE(monitor.health(0));
}

TEST(LibraryWithoutALibrary, SaysWhichFileAndHowToFindAnother) {
  RecordProperty("contract", "C18 E10 E13");
  gpuyard::MonitorOptions options;
  options.library = "/nowhere/libnvidia-ml.so.1";
  const auto monitor = Monitor::open(options);
  ASSERT_FALSE(monitor);
  EXPECT_TRUE(monitor.error().message.starts_with(
      "failed to initialise NVML: /nowhere/libnvidia-ml.so.1: "))
      << monitor.error().message;
  EXPECT_NE(advice_on(monitor.error()).find("ldconfig"), std::string::npos);
  EXPECT_FALSE(Monitor::open_or_none(options).is_cuda_available());
}

TEST(Advice, UnknownErrorHasNone) {
  EXPECT_EQ(gpuyard::advice_on({gpuyard::Errc::internal, "hm"}), "");
}

TEST(Mock, IsDescribedGpuByGpu) {
  RecordProperty("contract", "C2 C3 C16");
  const auto metrics = MockBuilder()
                           .with_device(0, "A100")
                           .with_temperature(70)
                           .with_utilization(93)
                           .with_memory(60'000'000'000, 80'000'000'000)
                           .with_device(3, "H100")
                           .with_temperature(50)
                           .collect_metrics();
  ASSERT_EQ(metrics.size(), 2U);
  EXPECT_EQ(metrics[0].device_id, 0U);
  EXPECT_EQ(metrics[0].name, "A100");
  EXPECT_EQ(metrics[0].temperature_celsius, 70);
  EXPECT_EQ(metrics[0].utilization_percent, 93);
  EXPECT_EQ(metrics[0].memory_percent(), 75);
  EXPECT_EQ(metrics[0].display_line(), "GPU 0: 70°C, 93% util, 60.0 GB / 80.0 GB");
  EXPECT_EQ(metrics[1].device_id, 3U);
  EXPECT_EQ(metrics[1].temperature_celsius, 50);
}

TEST(Mock, UnsetValuesHaveSaneDefaults) {
  RecordProperty("contract", "C16");
  const auto gpu = MockBuilder().with_device(0, "A100").collect_metrics().front();
  EXPECT_EQ(gpu.temperature_celsius, 40);
  EXPECT_EQ(gpu.utilization_percent, 0);
  EXPECT_EQ(gpu.memory_used_bytes, 0U);
  EXPECT_EQ(gpu.memory_total_bytes, kMemory);
  EXPECT_EQ(gpu.power_watts, 60);
  EXPECT_EQ(gpu.power_percent(), 20);
}

TEST(Mock, ValuesWithoutDeviceAreIgnored) {
  RecordProperty("contract", "C16");
  EXPECT_TRUE(MockBuilder().with_temperature(70).with_memory(1, 2).collect_metrics().empty());
}

TEST(Mock, RepeatedIndexSelectsExistingDevice) {
  RecordProperty("contract", "C16");
  MockBuilder builder;
  builder.with_device(0, "A100").with_device(1, "H100").with_device(0, "?").with_temperature(70);
  const auto metrics = builder.collect_metrics();
  ASSERT_EQ(metrics.size(), 2U);
  EXPECT_EQ(metrics[0].name, "A100");
  EXPECT_EQ(metrics[0].temperature_celsius, 70);
}

TEST(Mock, CanBeWatched) {
  RecordProperty("contract", "C16 A1");
  const FakeFleet fleet = MockBuilder().with_device(2, "A100").with_temperature(66).build();
  const auto gpus = open(fleet).snapshot();
  ASSERT_EQ(gpus.size(), 1U);
  EXPECT_EQ(gpus[0].id, 2U);
  EXPECT_EQ(gpus[0].temperature_celsius, 66);
  EXPECT_EQ(open(fleet).collect_metrics(), fleet.collect_metrics());
}

TEST_F(Library, MeasuresEnergyBetweenTwoMoments) {
  for (const std::uint32_t gpu : {1U, 2U}) {
    ASSERT_TRUE(fleet_.set_number(gpu, "energy_total_j", 1'000));
    ASSERT_TRUE(fleet_.set_number(gpu, "power_draw_w", 250));
  }
  auto monitor = std::make_optional(open(fleet_));
  auto window = monitor->begin_energy_window();
  ASSERT_TRUE(window.ok()) << window.error().message;
  monitor.reset();  // it keeps what it needs
  ASSERT_TRUE(fleet_.set_number(2, "energy_total_j", 1'500.5));
  EXPECT_EQ(window->measure().joules, 500.5);
  const auto measured = window->end();
  ASSERT_EQ(measured.gpus.size(), 4U);
  EXPECT_EQ(measured.gpus[0].joules, std::nullopt) << "it tells neither energy nor power";
  EXPECT_EQ(measured.gpus[2].index, 2U);
  EXPECT_EQ(measured.gpus[2].joules, 500.5);
  EXPECT_EQ(measured.gpus[2].peak_watts, 250);
  EXPECT_FALSE(measured.gpus[2].estimated);
  EXPECT_EQ(measured.joules, 500.5);
  EXPECT_TRUE(measured.partial);
  ASSERT_TRUE(fleet_.set_number(2, "energy_total_j", 9'000));
  EXPECT_EQ(window->end(), measured);
}

TEST_F(Library, AnEnergyWindowNeedsGpus) {
  const Monitor monitor = open(fleet_);
  EXPECT_EQ(monitor.begin_energy_window({9}).error().code, gpuyard::Errc::not_found);
  const auto none = Monitor::open_or_none(FakeFleet::without_driver("Driver Not Loaded"));
  EXPECT_FALSE(none.begin_energy_window().ok());
}

TEST(Sparkline, IsInTheLibrary) {
  RecordProperty("contract", "C11");
  const std::vector<double> load = {45, 67, 82, 91, 88, 75, 60};
  EXPECT_EQ(gpuyard::sparkline(load), "▃▅▆█▇▅▄");
  EXPECT_EQ(gpuyard::sparkline(load, 91), "▄▆███▇▆");
}

TEST(Version, IsThatOfTheProject) {
  EXPECT_FALSE(gpuyard::version().empty());
}

static_assert(!std::is_copy_constructible_v<Monitor> && std::is_move_constructible_v<Monitor>);

}  // namespace
