// The dialect of dcgm-exporter 4.8: its names, its labels, its units.
#include <gtest/gtest.h>

#include "metrics/fleet_for_tests.h"
#include "metrics/readings.h"

namespace gpuyard::metrics {
namespace {

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
  Process process{"1"};
  process.hostname = "node7";
  return render(snapshot, process, "p", format, dialect);
}

std::string series(std::string_view name, std::string_view value) {
  return "\n" + std::string(name) + std::string(kLabels) + std::string(value) + "\n";
}

TEST(Dcgm, TellsEachReadingInDcgmsUnit) {
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

TEST(Dcgm, CountsReservedMemoryNotAsUsed) {
  const std::string text = render_dcgm(
      with({{Metric::memory_used, 1000LL << 20}, {Metric::memory_reserved, 400LL << 20}}));
  EXPECT_NE(text.find(series("DCGM_FI_DEV_FB_USED", "600")), std::string::npos) << text;
  EXPECT_NE(text.find(series("DCGM_FI_DEV_FB_RESERVED", "400")), std::string::npos) << text;
}

TEST(Dcgm, TellsTheFirstFanAlone) {
  Snapshot snapshot = with({{Metric::fan_speed, 30}});
  snapshot.devices[0].sample.set({Metric::fan_speed, 1, {}, std::int64_t{70}});
  const std::string samples = samples_in(render_dcgm(snapshot));
  EXPECT_NE(samples.find(series("DCGM_FI_DEV_FAN_SPEED", "30").substr(1)), std::string::npos);
  EXPECT_EQ(samples.find("FAN_SPEED"), samples.rfind("FAN_SPEED")) << samples;
}

TEST(Dcgm, TellsTheXidSeenLastAndZeroForNone) {
  Snapshot snapshot = one_gpu();
  EXPECT_EQ(render_dcgm(snapshot).find("XID"), std::string::npos);
  snapshot.devices[0].xid_errors.emplace();
  EXPECT_NE(render_dcgm(snapshot).find(series("DCGM_FI_DEV_XID_ERRORS", "0")), std::string::npos);
  const auto at = [](int ms) { return WallTime(std::chrono::milliseconds(ms)); };
  snapshot.devices[0].xid_errors = {{31, 1, at(5)}, {79, 1, at(7)}, {94, 1, at(6)}, {{}, 9, at(8)}};
  EXPECT_NE(render_dcgm(snapshot).find(series("DCGM_FI_DEV_XID_ERRORS", "79")), std::string::npos);
}

TEST(Dcgm, AMissingReadingHasNoSeries) {
  Snapshot snapshot = one_gpu();
  snapshot.devices[0].sample.set({Metric::gpm_tensor, 0, {}, Missing{}});
  EXPECT_EQ(render_dcgm(snapshot).find("DCGM_FI_PROF"), std::string::npos);
}

TEST(Dcgm, AnUnresponsiveGpuHasNoReadings) {
  Snapshot snapshot = with({{Metric::temperature_core, 41}});
  snapshot.devices[0].condition = DeviceCondition::unresponsive;
  EXPECT_EQ(render_dcgm(snapshot).find("DCGM_FI_DEV_GPU_TEMP"), std::string::npos);
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

TEST(Dcgm, ACounterWithoutTotalIsOfUnknownTypeInOpenMetrics) {
  const Snapshot snapshot = with({{Metric::energy_total, 5}});
  const std::string type = "\n# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION ";
  EXPECT_NE(render_dcgm(snapshot).find(type + "counter\n"), std::string::npos);
  const std::string open = render_dcgm(snapshot, Dialect::dcgm, Format::openmetrics);
  EXPECT_NE(open.find(type + "unknown\n"), std::string::npos) << open;
  EXPECT_NE(open.find(series("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "5")), std::string::npos);
}

TEST(Dcgm, WithoutAHostnameHasNoSuchLabel) {
  EXPECT_EQ(render(with({{Metric::temperature_core, 41}}), {"1"}, "p", Format::text, Dialect::dcgm)
                .find("Hostname"),
            std::string::npos);
}

}  // namespace
}  // namespace gpuyard::metrics
