#include "faces/metrics/prometheus.h"

#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "faces/metrics/fleet_for_tests.h"
#include "gpu/device/catalog.h"

namespace gpuyard::metrics {
namespace {

constexpr TimePoint kNow{std::chrono::seconds(1000)};
const DaemonMetrics kDaemonMetrics{"1.2.3"};

void set(DeviceState& device, Metric metric, std::int64_t value, TimePoint taken = kNow) {
  device.sample.set({metric, 0, taken, value});
}

// A healthy GPU, one with a strange name that lacks most sensors, and one that cannot be opened.
Snapshot small_fleet() {
  Snapshot snapshot;
  snapshot.generation = 7;
  snapshot.taken = kNow;
  snapshot.driver = {true, "", {"535.104.05", "12.2", "12.535.104", "libnvidia-ml.so.1"}};
  snapshot.devices.resize(3);
  DeviceState& healthy = snapshot.devices[0];
  healthy.info = {"GPU-0", 0, "GPU-0", "0000:01:00.0", "NVIDIA H100 80GB HBM3", {}};
  set(healthy, Metric::memory_total, 85'520'809'984);
  set(healthy, Metric::memory_free, 85'520'809'983);
  set(healthy, Metric::memory_used, 1);
  set(healthy, Metric::utilization_gpu, 0);
  set(healthy, Metric::temperature_core, 40);
  set(healthy, Metric::power_draw, 312'500);
  set(healthy, Metric::power_limit, 700'000);
  set(healthy, Metric::energy_total, 9'007'199'254'741);
  set(healthy, Metric::clock_sm, 1980);
  DeviceState& strange = snapshot.devices[1];
  strange.info = {"GPU-1", 1, "GPU-1", "0000:02:00.0", "say \"hi\" \\ bye\n\xFF \u65E5", {}};
  set(strange, Metric::temperature_core, -5);
  strange.sample.set({Metric::utilization_gpu, 0, kNow, Missing{MissingReason::not_supported, ""}});
  DeviceState& closed = snapshot.devices[2];
  closed.info = {"index:2", 2, "", "", "", Missing{MissingReason::device_lost, ""}};
  closed.condition = DeviceCondition::unavailable;
  return snapshot;
}

constexpr std::string_view kGolden =
    R"(# HELP gpuyard_build_info Version of gpuyard; always 1.
# TYPE gpuyard_build_info gauge
gpuyard_build_info{version="1.2.3"} 1
# HELP gpuyard_driver_up 1 while the driver is initialised.
# TYPE gpuyard_driver_up gauge
gpuyard_driver_up 1
# HELP gpuyard_simulated 1 if the GPUs are simulated.
# TYPE gpuyard_simulated gauge
gpuyard_simulated 0
# HELP gpuyard_driver_info Versions of driver, CUDA and NVML; always 1.
# TYPE gpuyard_driver_info gauge
gpuyard_driver_info{driver_version="535.104.05",cuda_driver_version="12.2",nvml_version="12.535.104"} 1
# HELP gpuyard_gpu_info Identity of a GPU; always 1. Join it on `device`.
# TYPE gpuyard_gpu_info gauge
gpuyard_gpu_info{device="0",uuid="GPU-0",pci_address="0000:01:00.0",name="NVIDIA H100 80GB HBM3"} 1
gpuyard_gpu_info{device="1",uuid="GPU-1",pci_address="0000:02:00.0",name="say \"hi\" \\ bye\n� 日"} 1
# HELP gpuyard_gpu_responsive 1 while the driver responds for this GPU in time.
# TYPE gpuyard_gpu_responsive gauge
gpuyard_gpu_responsive{device="0"} 1
gpuyard_gpu_responsive{device="1"} 1
gpuyard_gpu_responsive{device="2"} 0
# HELP gpuyard_gpu_lost 1 while the driver reports this GPU as lost, or does not list it.
# TYPE gpuyard_gpu_lost gauge
gpuyard_gpu_lost{device="0"} 0
gpuyard_gpu_lost{device="1"} 0
gpuyard_gpu_lost{device="2"} 1
# HELP gpuyard_gpu_query_errors_total Readings that the driver failed to return.
# TYPE gpuyard_gpu_query_errors_total counter
gpuyard_gpu_query_errors_total{device="0"} 0
gpuyard_gpu_query_errors_total{device="1"} 0
gpuyard_gpu_query_errors_total{device="2"} 0
# HELP gpuyard_gpu_memory_total_bytes Installed device memory.
# TYPE gpuyard_gpu_memory_total_bytes gauge
gpuyard_gpu_memory_total_bytes{device="0"} 85520809984
# HELP gpuyard_gpu_memory_free_bytes Unallocated device memory.
# TYPE gpuyard_gpu_memory_free_bytes gauge
gpuyard_gpu_memory_free_bytes{device="0"} 85520809983
# HELP gpuyard_gpu_memory_used_bytes Device memory in use: allocated by processes or reserved by the driver (total - free).
# TYPE gpuyard_gpu_memory_used_bytes gauge
gpuyard_gpu_memory_used_bytes{device="0"} 1
# HELP gpuyard_gpu_utilization_percent Share of the driver's last sample period in which a kernel was resident.
# TYPE gpuyard_gpu_utilization_percent gauge
gpuyard_gpu_utilization_percent{device="0"} 0
# HELP gpuyard_gpu_temperature_celsius Core temperature.
# TYPE gpuyard_gpu_temperature_celsius gauge
gpuyard_gpu_temperature_celsius{device="0"} 40
gpuyard_gpu_temperature_celsius{device="1"} -5
# HELP gpuyard_gpu_power_watts Power drawn by the whole board; a one-second average on most GPUs since Ampere.
# TYPE gpuyard_gpu_power_watts gauge
gpuyard_gpu_power_watts{device="0"} 312.5
# HELP gpuyard_gpu_power_limit_watts Power limit currently enforced.
# TYPE gpuyard_gpu_power_limit_watts gauge
gpuyard_gpu_power_limit_watts{device="0"} 700
# HELP gpuyard_gpu_energy_joules_total Energy used since the driver was loaded.
# TYPE gpuyard_gpu_energy_joules_total counter
gpuyard_gpu_energy_joules_total{device="0"} 9007199254.741
# HELP gpuyard_gpu_sm_clock_hertz Current clock of the streaming multiprocessors.
# TYPE gpuyard_gpu_sm_clock_hertz gauge
gpuyard_gpu_sm_clock_hertz{device="0"} 1.98e+09
)";

std::string lines_with(const std::string& text, std::string_view word) {
  std::string found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(word) != std::string::npos) found += line + "\n";
  }
  return found;
}

TEST(Prometheus, HealthIsNumericAndUnknownIsAbsent) {
  RecordProperty("contract", "A10");
  Snapshot snapshot = small_fleet();
  EXPECT_EQ(render(snapshot, kDaemonMetrics, "p").find("p_gpu_health"), std::string::npos);
  snapshot.devices[0].health.verdict = Health::healthy;
  snapshot.devices[2].health.verdict = Health::unhealthy;
  const std::string text = render(snapshot, kDaemonMetrics, "p");
  EXPECT_NE(text.find("# TYPE p_gpu_health gauge\np_gpu_health{device=\"0\"} 0\n"
                      "p_gpu_health{device=\"2\"} 2\n"),
            std::string::npos)
      << text;
}

TEST(Prometheus, SmallFleetMatchesGoldenText) {
  EXPECT_EQ(render(small_fleet(), kDaemonMetrics, "gpuyard"), kGolden);
}

TEST(Prometheus, ContractFamiliesHaveOnlyDeviceLabel) {
  RecordProperty("contract", "C14");
  for (const std::string prefix : {"gpuyard", "my_app:x"}) {
    const std::string text = "\n" + render(small_fleet(), kDaemonMetrics, prefix);
    for (const char* series :
         {"_gpu_temperature_celsius{device=\"0\"} 40\n",
          "_gpu_utilization_percent{device=\"0\"} 0\n", "_gpu_memory_used_bytes{device=\"0\"} 1\n",
          "_gpu_power_watts{device=\"0\"} 312.5\n", "_gpu_info{device=\"0\",uuid=\"GPU-0\","}) {
      EXPECT_NE(text.find("\n" + prefix + series), std::string::npos) << prefix << series;
    }
  }
}

TEST(Prometheus, AMissingReadingHasNoSeries) {
  const std::string text = render(small_fleet(), kDaemonMetrics, "p");
  EXPECT_EQ(lines_with(text, "p_gpu_utilization_percent{device=\"1\"}"), "");
  EXPECT_EQ(lines_with(text, "{device=\"2\"}"),
            "p_gpu_responsive{device=\"2\"} 0\np_gpu_lost{device=\"2\"} 1\n"
            "p_gpu_query_errors_total{device=\"2\"} 0\n");

  Snapshot measures_nothing = small_fleet();
  for (const MetricRow& row : catalog()) {
    measures_nothing.devices[0].sample.set(
        {row.metric, 0, kNow, Missing{MissingReason::not_supported, ""}});
  }
  EXPECT_EQ(lines_with(render(measures_nothing, kDaemonMetrics, "p"), "{device=\"0\"}"),
            "p_gpu_responsive{device=\"0\"} 1\np_gpu_lost{device=\"0\"} 0\n"
            "p_gpu_query_errors_total{device=\"0\"} 0\n");
}

TEST(Prometheus, AReadingOfTheSlowTierIsNotTooOld) {
  Snapshot snapshot = small_fleet();
  set(snapshot.devices[0], Metric::power_limit, 700'000, kNow - 2 * kSlowInterval);
  EXPECT_EQ(lines_with(render(snapshot, kDaemonMetrics, "p"), "power_limit_watts{"),
            "p_gpu_power_limit_watts{device=\"0\"} 700\n");
}

TEST(Prometheus, SleepingGpuHasNoReadings) {
  Snapshot snapshot = small_fleet();
  EXPECT_EQ(lines_with(render(snapshot, kDaemonMetrics, "p"), "gpu_asleep"), "");
  snapshot.devices[0].runtime_suspend =
      RuntimeSuspend{.polling_paused = true, .asleep_since = kNow};
  snapshot.devices[1].runtime_suspend = RuntimeSuspend{};
  const std::string text = render(snapshot, kDaemonMetrics, "p");
  EXPECT_EQ(lines_with(text, "p_gpu_asleep{"),
            "p_gpu_asleep{device=\"0\"} 1\np_gpu_asleep{device=\"1\"} 0\n");
  EXPECT_EQ(lines_with(text, "power_watts{device=\"0\"}"), "");
  EXPECT_EQ(lines_with(text, "responsive{device=\"0\"}"), "p_gpu_responsive{device=\"0\"} 1\n");
}

TEST(Prometheus, AnUnresponsiveGpuSaysSo) {
  Snapshot snapshot = small_fleet();
  snapshot.devices[0].condition = DeviceCondition::unresponsive;
  EXPECT_EQ(lines_with(render(snapshot, kDaemonMetrics, "p"), "responsive{device=\"0\"}"),
            "p_gpu_responsive{device=\"0\"} 0\n");
}

// A scraper would take its last readings for those of now.
TEST(Prometheus, AnUnresponsiveGpuHasNoReadings) {
  Snapshot snapshot = small_fleet();
  for (DeviceState& device : snapshot.devices) device.condition = DeviceCondition::unresponsive;
  const std::string text = render(snapshot, kDaemonMetrics, "p");
  EXPECT_EQ(lines_with(text, "temperature"), "");
  EXPECT_EQ(lines_with(text, "energy"), "");
}

TEST(Prometheus, FailedReadingsAreCounted) {
  Snapshot snapshot = small_fleet();
  snapshot.devices[0].query_errors = 17;
  EXPECT_EQ(lines_with(render(snapshot, kDaemonMetrics, "p"), "errors_total{device=\"0\"}"),
            "p_gpu_query_errors_total{device=\"0\"} 17\n");
}

TEST(Prometheus, MissingDriverHasNoVersionsOrGpus) {
  const std::string text = render(Snapshot{}, kDaemonMetrics, "p");
  EXPECT_NE(text.find("\np_driver_up 0\n"), std::string::npos) << text;
  EXPECT_EQ(lines_with(text, "driver_info"), "");
  EXPECT_EQ(lines_with(text, "p_gpu_"), "");
}

TEST(Prometheus, SimulatedGpusAreMarked) {
  Snapshot snapshot = small_fleet();
  snapshot.driver.info.simulated = true;
  EXPECT_NE(render(snapshot, kDaemonMetrics, "p").find("\np_simulated 1\n"), std::string::npos);
}

TEST(Prometheus, EachFamilyIsDeclaredOnce) {
  std::istringstream lines(render(small_fleet(), kDaemonMetrics, "p"));
  std::set<std::string> families;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("# TYPE ")) continue;
    EXPECT_TRUE(families.insert(line.substr(0, line.rfind(' '))).second) << line;
  }
  EXPECT_FALSE(families.empty());
}

TEST(Prometheus, InvalidMetricPrefixIsRefused) {
  for (const char* good : {"gpuyard", "_", "a:b", "A9"}) EXPECT_TRUE(check_prefix(good)) << good;
  for (const char* bad : {"", "9a", "a-b", "a b", "a.b", "\u00E4", "a\n"}) {
    const auto checked = check_prefix(bad);
    ASSERT_FALSE(checked) << bad;
    EXPECT_EQ(checked.error().code, Errc::invalid);
  }
}

TEST(Prometheus, TheLagOfTheLoopIsAHistogram) {
  Histogram lag;
  lag.add(std::chrono::milliseconds(7));
  lag.add(std::chrono::seconds(9));
  const std::string text = render(Snapshot{}, {"1.2.3", &lag}, "gpuyard");
  EXPECT_NE(text.find("# TYPE gpuyard_loop_lag_seconds histogram\n"), std::string::npos) << text;
  EXPECT_NE(text.find("gpuyard_loop_lag_seconds_bucket{le=\"0.00025\"} 0\n"), std::string::npos);
  EXPECT_NE(text.find("gpuyard_loop_lag_seconds_bucket{le=\"0.01\"} 1\n"), std::string::npos);
  EXPECT_NE(text.find("gpuyard_loop_lag_seconds_bucket{le=\"+Inf\"} 2\n"), std::string::npos);
  EXPECT_NE(text.find("gpuyard_loop_lag_seconds_sum 9.007\n"), std::string::npos);
  EXPECT_NE(text.find("gpuyard_loop_lag_seconds_count 2\n"), std::string::npos);
}

}  // namespace

namespace {

// The labels of dcgm-exporter 4.8.
constexpr std::string_view kLabels =
    R"({gpu="0",UUID="GPU-abc",pci_bus_id="00000000:3B:00.0",device="nvidia0",)"
    R"(modelName="NVIDIA H100 80GB HBM3",Hostname="node7",DCGM_FI_DRIVER_VERSION="535.104.05"} )";

Snapshot one_gpu() {
  Snapshot snapshot;
  snapshot.driver = {true, "", {"535.104.05", "12.2", "12.535.104", "libnvidia-ml.so.1"}};
  snapshot.devices.resize(1);
  snapshot.devices[0].info = {"GPU-abc", 0, "GPU-abc", "0000:3b:00.0", "NVIDIA H100 80GB HBM3", {}};
  return snapshot;
}

Snapshot with(std::initializer_list<std::pair<Metric, std::int64_t>> readings) {
  Snapshot snapshot = one_gpu();
  for (const auto& [metric, value] : readings) {
    snapshot.devices[0].sample.set({metric, 0, {}, value});
  }
  return snapshot;
}

std::string render_dcgm(const Snapshot& snapshot, Dialect dialect = Dialect::dcgm,
                        Format format = Format::text) {
  DaemonMetrics process{"1"};
  process.hostname = "node7";
  return render(snapshot, process, "p", format, {dialect});
}

std::string series(std::string_view name, std::string_view value) {
  return "\n" + std::string(name) + std::string(kLabels) + std::string(value) + "\n";
}

TEST(Dcgm, ReadingsAreExportedInDialectUnits) {
  const std::string text = render_dcgm(with({{Metric::temperature_core, 41},
                                             {Metric::power_draw, 312'500},
                                             {Metric::energy_total, 9'007'199'254'741},
                                             {Metric::clock_sm, 1980},
                                             {Metric::utilization_gpu, 97},
                                             {Metric::memory_used, 3LL << 30},
                                             {Metric::gpm_tensor, 12'500},
                                             {Metric::pcie_tx, 2048},
                                             {Metric::throttle_reasons, 0x24}}));
  for (const auto& [name, value] :
       {std::pair{"DCGM_FI_DEV_GPU_TEMP", "41"}, std::pair{"DCGM_FI_DEV_POWER_USAGE", "312.5"},
        std::pair{"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "9007199254741"},
        std::pair{"DCGM_FI_DEV_SM_CLOCK", "1980"}, std::pair{"DCGM_FI_DEV_GPU_UTIL", "97"},
        std::pair{"DCGM_FI_DEV_FB_USED", "3072"},
        std::pair{"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "0.125"},
        std::pair{"DCGM_FI_DEV_PCIE_TX_THROUGHPUT", "2"},
        std::pair{"DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "36"}}) {
    EXPECT_NE(text.find(series(name, value)), std::string::npos) << name << "\n" << text;
  }
}

TEST(Dcgm, AHighFlagHidesNoLowFlag) {
  const std::string text = render_dcgm(with({{Metric::throttle_reasons, INT64_MIN | 0x40}}));
  EXPECT_NE(text.find(series("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "64")), std::string::npos) << text;
}

TEST(Dcgm, CountsReservedMemoryNotAsUsed) {
  const std::string text = render_dcgm(
      with({{Metric::memory_used, 1000LL << 20}, {Metric::memory_reserved, 400LL << 20}}));
  EXPECT_NE(text.find(series("DCGM_FI_DEV_FB_USED", "600")), std::string::npos) << text;
  EXPECT_NE(text.find(series("DCGM_FI_DEV_FB_RESERVED", "400")), std::string::npos) << text;
}

TEST(Dcgm, OnlyFirstFanIsExported) {
  Snapshot snapshot = with({{Metric::fan_speed, 30}});
  snapshot.devices[0].sample.set({Metric::fan_speed, 1, {}, std::int64_t{70}});
  const std::string samples = samples_in(render_dcgm(snapshot));
  EXPECT_NE(samples.find(series("DCGM_FI_DEV_FAN_SPEED", "30").substr(1)), std::string::npos);
  EXPECT_EQ(samples.find("FAN_SPEED"), samples.rfind("FAN_SPEED")) << samples;
}

TEST(Dcgm, LatestXidIsExportedAndNoneIsZero) {
  Snapshot snapshot = one_gpu();
  EXPECT_EQ(render_dcgm(snapshot).find("XID"), std::string::npos);
  snapshot.devices[0].xid_errors.emplace();
  EXPECT_NE(render_dcgm(snapshot).find(series("DCGM_FI_DEV_XID_ERRORS", "0")), std::string::npos);
  const auto at = [](int ms) { return WallTime(std::chrono::milliseconds(ms)); };
  snapshot.devices[0].xid_errors = {{31, 1, at(5)}, {79, 1, at(7)}, {94, 1, at(6)}, {{}, 9, at(8)}};
  EXPECT_NE(render_dcgm(snapshot).find(series("DCGM_FI_DEV_XID_ERRORS", "79")), std::string::npos);
}

TEST(Dcgm, ReplacesReadingsOrComesBesideThem) {
  const Snapshot snapshot = with({{Metric::temperature_core, 41}});
  const std::string ours = "\np_gpu_temperature_celsius{device=\"0\"} 41\n";
  const std::string theirs = series("DCGM_FI_DEV_GPU_TEMP", "41");
  for (const auto& [dialect, has_ours, has_theirs] :
       {std::tuple{Dialect::gpuyard, true, false}, std::tuple{Dialect::dcgm, false, true},
        std::tuple{Dialect::both, true, true}}) {
    const std::string text = render_dcgm(snapshot, dialect);
    EXPECT_EQ(text.find(ours) != std::string::npos, has_ours) << text;
    EXPECT_EQ(text.find(theirs) != std::string::npos, has_theirs) << text;
    EXPECT_NE(text.find("\np_gpu_info{"), std::string::npos) << text;
  }
}

TEST(Dcgm, CounterWithoutTotalIsUnknownInOpenMetrics) {
  const Snapshot snapshot = with({{Metric::energy_total, 5}});
  const std::string type = "\n# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION ";
  EXPECT_NE(render_dcgm(snapshot).find(type + "counter\n"), std::string::npos);
  const std::string open = render_dcgm(snapshot, Dialect::dcgm, Format::openmetrics);
  EXPECT_NE(open.find(type + "unknown\n"), std::string::npos) << open;
  EXPECT_NE(open.find(series("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "5")), std::string::npos);
}

TEST(Dcgm, EmptyHostnameOmitsLabel) {
  const std::string text = render(with({{Metric::temperature_core, 41}}), {"1"}, "p", Format::text,
                                  {.dialect = Dialect::dcgm});
  EXPECT_EQ(text.find("Hostname"), std::string::npos);
}

TEST(Prometheus, ADisplacedGpuIsNamedByItsUuid) {
  Snapshot snapshot = small_fleet();
  DeviceInfo& info = snapshot.devices[2].info;
  info.id = info.uuid = "GPU-gone";
  info.former_index = 1;
  const std::string text = render(snapshot, kDaemonMetrics, "p");
  EXPECT_EQ(lines_with(text, "gpu_lost{device=\"GPU-gone\"}"),
            "p_gpu_lost{device=\"GPU-gone\"} 1\n");
  EXPECT_EQ(lines_with(text, "device=\"2\""), "");
  info.former_index = 2;
  EXPECT_EQ(lines_with(render(snapshot, kDaemonMetrics, "p"), "gpu_lost{device=\"2\"}"),
            "p_gpu_lost{device=\"2\"} 1\n");
}

}  // namespace
}  // namespace gpuyard::metrics
