#include "cli/read/device_page.h"

#include <map>

#include <gtest/gtest.h>

#include "cli/read/devices_for_tests.h"
#include "gpu/device/catalog.h"

namespace gpuyard::cli {
namespace {

std::string page_of(const protocol::Device& shown, const Screen& screen = {}) {
  return device_page(snapshot_with({shown}), shown, screen);
}

bool says(const std::string& page, const std::string& line) {
  return page.find("\n" + line + "\n") != std::string::npos;
}

TEST(DevicePage, EveryRowOfADeviceStandsInOneGroup) {
  std::map<Metric, int> times;
  for (const Group& group : groups()) {
    for (const Metric metric : group.metrics) ++times[metric];
  }
  for (const MetricRow& row : catalog()) {
    EXPECT_EQ(times[row.metric], row.subject == MetricSubject::device ? 1 : 0) << row.key;
  }
}

TEST(DevicePage, KnownReadingsHaveUnits) {
  const std::string page = page_of(busy());
  EXPECT_TRUE(page.starts_with("GPU 0  NVIDIA H100 80GB HBM3\n0000:1a:00.0  GPU-0\n")) << page;
  EXPECT_TRUE(says(page, "  used              12.5 GiB")) << page;
  EXPECT_TRUE(says(page, "  throttle reasons  sw power cap")) << page;
  EXPECT_TRUE(says(page, "  draw              613 W")) << page;
}

TEST(DevicePage, UnreportedReadingsShareOneLine) {
  const std::string page = page_of(busy());
  EXPECT_NE(page.find("\nnot reported: brand, architecture, compute capability"), std::string::npos)
      << page;
  EXPECT_EQ(page.find("NVLink"), std::string::npos) << "a group without a reading";
}

TEST(DevicePage, AnotherReasonIsSaid) {
  protocol::Device shown = busy();
  shown.missing["serial"] = {MissingReason::no_permission, "Insufficient Permissions"};
  EXPECT_TRUE(says(page_of(shown), "not read (Insufficient Permissions): serial"));
}

TEST(DevicePage, NamesTheProcesses) {
  protocol::Device shown = busy();
  protocol::Process known = protocol::process_of({7, ProcessKind::compute, 3 * kGiB, 42}, nullptr);
  known.user = "alice";
  known.command = "python3\x1b";
  shown.processes = {known, protocol::process_of({8, ProcessKind::compute, {}, {}}, nullptr)};
  const std::string page = page_of(shown);
  EXPECT_TRUE(says(page, "    7  alice  compute  3.0 GiB  42 %  python3?")) << page;
  EXPECT_TRUE(says(page, "    8  -      compute        -     -  -")) << page;
}

TEST(DevicePage, OnAWideTerminalGroupsStandSideBySide) {
  Screen wide;
  wide.terminal = true;
  wide.columns = 120;
  const std::string page = page_of(busy(), wide);
  const std::size_t row = page.find("\nUtilisation");
  ASSERT_NE(row, std::string::npos);
  EXPECT_NE(page.substr(row + 1, page.find('\n', row + 1) - row).find("     "), std::string::npos)
      << page;
}

TEST(DevicePage, LinksAreCountedAndDownLinksNamed) {
  DeviceState state;
  for (std::uint16_t i = 0; i < 3; ++i) state.sample.set({Metric::nvlink_active, i, {}, i != 1});
  EXPECT_TRUE(says(page_of(protocol::device_of(state, {})), "  active  2 of 3 up, down: 1"));
}

TEST(DevicePage, ErrorLocationsAppearOnlyWithErrors) {
  DeviceState state;
  state.sample.set({Metric::ecc_corrected_volatile_at, 1, {}, 0});
  EXPECT_EQ(page_of(protocol::device_of(state, {})).find("l2_cache"), std::string::npos);
  state.sample.set({Metric::ecc_corrected_volatile_at, 1, {}, 2});
  EXPECT_NE(page_of(protocol::device_of(state, {})).find("l2_cache 2"), std::string::npos);
}

TEST(DevicePage, RecoveryActionIsPrintedInWords) {
  DeviceState state;
  state.sample.set({Metric::recovery_action, 0, {}, 4});
  EXPECT_TRUE(says(page_of(protocol::device_of(state, {})), "  recovery action  drain_and_reset"));
}

TEST(DevicePage, SeveralFansArePrintedInOrder) {
  DeviceState state;
  state.sample.set({Metric::fan_speed, 0, {}, 30});
  state.sample.set({Metric::fan_speed, 1, {}, 31});
  EXPECT_TRUE(says(page_of(protocol::device_of(state, {})), "  fan speed  30 %, 31 %"));
}

TEST(DevicePage, SaysTheLastXidInWords) {
  protocol::Device shown = busy();
  EXPECT_EQ(page_of(shown).find("Xid"), std::string::npos);
  const WallTime noon = *from_rfc3339("2026-01-31T12:00:00Z");
  shown.xid_errors = {{13, 9, noon}, {79, 1, noon + std::chrono::seconds(5)}};
  EXPECT_TRUE(says(page_of(shown),
                   "Xid 79 (1 time, last 2026-01-31T12:00:05.000Z): The GPU has fallen off the "
                   "bus."));
  shown.xid_errors->push_back({{}, 3, noon + std::chrono::seconds(6)});
  EXPECT_TRUE(says(page_of(shown), "other Xids (3 times, last 2026-01-31T12:00:06.000Z)"));
}

}  // namespace
}  // namespace gpuyard::cli
