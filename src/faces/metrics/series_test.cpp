// Tests the number of series of a GPU, and that labels and states do not change it.
#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "faces/metrics/fleet_for_tests.h"

namespace gpuyard::metrics {
namespace {

int series_of(const Snapshot& snapshot, const Selection& selection = {},
              const AlertMetrics* alerts = nullptr) {
  LeaseMetrics leases;
  for (const DeviceState& device : snapshot.devices)
    leases.gpus.emplace_back(label_of(device.info), true);
  const std::string samples =
      samples_in(render(snapshot, {"1", nullptr, &leases, alerts}, "p", Format::text, selection));
  return static_cast<int>(std::ranges::count(samples, '\n'));
}

TEST(Series, CountPerGpuMatchesReference) {
  const int of_the_node = series_of(fleet_of(0));
  EXPECT_EQ(series_of(fleet_of(1)) - of_the_node, max_series_per_gpu());
  EXPECT_EQ(series_of(fleet_of(64)) - of_the_node, 64 * max_series_per_gpu());
}

TEST(Series, DcgmCountPerGpuMatchesReference) {
  const int of_the_node = series_of(fleet_of(0));
  EXPECT_EQ(series_of(fleet_of(2), {Dialect::dcgm}) - of_the_node,
            2 * (max_series_per_gpu() - max_readings_per_gpu() + kMaxDcgmSeriesPerGpu));
  EXPECT_EQ(series_of(fleet_of(2), {Dialect::both}) - of_the_node,
            2 * (max_series_per_gpu() + kMaxDcgmSeriesPerGpu));
}

TEST(Series, MinimalProfileHasAtMostTwentyPerGpu) {
  Snapshot fleet = fleet_of(2);
  for (DeviceState& device : fleet.devices) {
    device.runtime_suspend.emplace();
    device.bottleneck.emplace();
  }
  const Selection minimal{.profile = Profile::minimal};
  const int per_gpu = (series_of(fleet, minimal) - series_of(fleet_of(0), minimal)) / 2;
  // Beside the readings: info, responsive, asleep, lost, query errors, health, bottleneck, leased.
  EXPECT_EQ(per_gpu, static_cast<int>(minimal_readings().size()) + 8);
  EXPECT_EQ(per_gpu, kMaxMinimalSeriesPerGpu);
}

TEST(Series, MinimalProfileIsSubsetOfFull) {
  const Snapshot fleet = fleet_of(1);
  const std::string full = samples_in(render(fleet, {"1"}, "p", Format::text));
  const std::string minimal =
      samples_in(render(fleet, {"1"}, "p", Format::text, {Dialect::gpuyard, Profile::minimal}));
  std::size_t begin = 0;
  while (begin < minimal.size()) {
    const std::size_t end = minimal.find('\n', begin) + 1;
    EXPECT_NE(full.find(minimal.substr(begin, end - begin)), std::string::npos);
    begin = end;
  }
  for (const Metric metric : minimal_readings()) {
    EXPECT_NE(minimal.find("p_" + std::string(row_of(metric).prometheus)), std::string::npos);
  }
}

TEST(Series, MinimalProfileSelectsReadingsOfDcgmToo) {
  const std::string text =
      samples_in(render(fleet_of(1), {"1"}, "p", Format::text, {Dialect::dcgm, Profile::minimal}));
  EXPECT_NE(text.find("DCGM_FI_DEV_POWER_USAGE{"), std::string::npos) << text;
  EXPECT_EQ(text.find("DCGM_FI_DEV_FAN_SPEED{"), std::string::npos) << text;
}

TEST(Series, OfAlertsAreTwoForEachThatFires) {
  AlertMetrics alerts;
  const int quiet = series_of(fleet_of(1), {}, &alerts);
  alerts.firing = {
      {"hot", "warning", 55, "0"}, {"full", "error", 60, "0"}, {"disk", "error", 70, {}}};
  EXPECT_EQ(series_of(fleet_of(1), {}, &alerts) - quiet, 3 * 2);
}

TEST(Series, XidsHaveGpuCodeAndLastSeen) {
  Snapshot snapshot = fleet_of(1);
  snapshot.devices[0].xid_errors = {{79, 3, WallTime(std::chrono::milliseconds(1'767'225'600'250))},
                                    {{}, 1, {}}};
  const std::string text = render(snapshot, {"1"}, "p");
  for (const char* line :
       {"p_gpu_xid_errors_total{device=\"0\",uuid=\"GPU-x\",xid=\"79\"} 3\n",
        "p_gpu_xid_errors_total{device=\"0\",uuid=\"GPU-x\",xid=\"other\"} 1\n",
        "p_gpu_xid_last_seen_timestamp_seconds{device=\"0\",uuid=\"GPU-x\",xid=\"79\"} "
        "1767225600.25\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
  snapshot.devices[0].xid_errors.emplace();
  EXPECT_EQ(render(snapshot, {"1"}, "p").find("xid"), std::string::npos);
}

TEST(Series, DoNotGrowWithTheNumberOfProcesses) {
  Snapshot busy = fleet_of(1);
  Sample& sample = busy.devices[0].sample;
  sample.set({Metric::processes_compute, 0, {}, std::int64_t{10'000}});
  std::vector<GpuProcess> listed(kMaxListedProcesses);
  for (std::uint32_t pid = 0; GpuProcess & process : listed) process.pid = ++pid;
  sample.set(ProcessList{{}, std::move(listed)});
  EXPECT_EQ(series_of(busy), series_of(fleet_of(1)));
}

TEST(Series, UnsetFlagIsZeroAndUnknownIsAbsent) {
  Snapshot snapshot = fleet_of(1);
  snapshot.devices[0].sample = {};
  snapshot.devices[0].sample.set({Metric::throttle_reasons, 0, {}, std::int64_t{0x4}});
  const std::string text = render(snapshot, {"1"}, "p");
  for (const char* line :
       {"{device=\"0\",reason=\"sw_power_cap\"} 1\n", "{device=\"0\",reason=\"hw_thermal\"} 0\n"}) {
    EXPECT_NE(text.find(std::string("\np_gpu_throttle_reason_active") + line), std::string::npos);
  }
  snapshot.devices[0].sample.set({Metric::throttle_reasons, 0, {}, Missing{}});
  EXPECT_EQ(render(snapshot, {"1"}, "p").find("throttle_reason_active"), std::string::npos);
}

TEST(Series, OfUnknownFlagsAreOtherAndHideNoFlag) {
  Snapshot snapshot = fleet_of(1);
  snapshot.devices[0].sample = {};
  snapshot.devices[0].sample.set({Metric::throttle_reasons, 0, {}, INT64_MIN | 0x40});
  const std::string text = render(snapshot, {"1"}, "p");
  for (const char* line : {"reason=\"hw_thermal\"} 1\n", "reason=\"other\"} 1\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
}

TEST(Series, OfARowWithSeveralElementsNameThem) {
  Snapshot snapshot = fleet_of(1);
  const std::string text = render(snapshot, {"1"}, "p");
  for (const char* series :
       {"p_gpu_fan_speed_percent{device=\"0\",fan=\"1\"} 1\n",
        "p_gpu_nvlink_active{device=\"0\",link=\"17\"} 1\n",
        "p_gpu_ecc_corrected_volatile_location_errors_total{device=\"0\",location=\"sram\"} 1\n"}) {
    EXPECT_NE(text.find(series), std::string::npos) << series;
  }
}

TEST(Series, DroppedEventsAreCountedBySource) {
  const EventMetrics events{{3, 2874}, 1};
  DaemonMetrics process{"1"};
  process.events = &events;
  const std::string text = render(Snapshot{}, process, "p");
  for (const char* line : {"p_events_dropped_total{source=\"driver\"} 3\n",
                           "p_events_dropped_total{source=\"kernel_log\"} 2874\n",
                           "p_events_dropped_total{source=\"rules\"} 1\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
}

TEST(Series, LeasesAreCountedWithoutOwners) {
  const LeaseMetrics leases{{{"0", true}, {"1", false}}, 1, 7, 4711};
  const std::string text = render(Snapshot{}, {"1", nullptr, &leases}, "p");
  for (const char* line :
       {"# TYPE p_gpu_leased gauge\np_gpu_leased{device=\"0\"} 1\np_gpu_leased{device=\"1\"} 0\n",
        "# TYPE p_leases_held gauge\np_leases_held 1\n",
        "# TYPE p_lease_waiting gauge\np_lease_waiting 7\n",
        "# TYPE p_lease_grants_total counter\np_lease_grants_total 4711\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
  EXPECT_EQ(render(Snapshot{}, {"1"}, "p").find("lease"), std::string::npos);
}

}  // namespace
}  // namespace gpuyard::metrics
