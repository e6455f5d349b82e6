#include "cli/read/devices.h"

#include <gtest/gtest.h>

#include "cli/read/devices_for_tests.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/output.h"
#include "cli/screen/screen.h"

namespace gpuyard::cli {
namespace {

Screen terminal(std::size_t columns) {
  Screen screen;
  screen.terminal = true;
  screen.columns = columns;
  screen.utf8 = true;
  return screen;
}

std::string table_of(std::vector<protocol::Device> devices, const Screen& screen = {}) {
  return device_table(snapshot_with(std::move(devices)), screen);
}

std::string heading_of(const std::string& table) {
  return table.substr(0, table.find('\n'));
}

TEST(DeviceTable, EachGpuHasRowWithDashesForMissing) {
  EXPECT_EQ(table_of({busy(), device(10, {})}),
            "GPU  NAME            UTIL         MEMORY  TEMP      POWER  SM CLOCK  PROCS  "
            "THROTTLED BY  PCI           UUID\n"
            "  0  H100 80GB HBM3  97 %  12.5/80.0 GiB  71 C  613/700 W  1980 MHz      0  "
            "sw power cap  0000:1a:00.0  GPU-0\n"
            " 10  H100 80GB HBM3     -              -     -          -         -      -  "
            "-             0000:1a:00.0  GPU-10\n");
}

TEST(DeviceTable, NoLineIsWiderThanTheTerminal) {
  for (std::size_t columns = 10; columns <= 200; ++columns) {
    const std::string text = table_of({busy(), device(10, {})}, terminal(columns));
    std::size_t start = 0;
    while (start < text.size()) {
      const std::size_t end = text.find('\n', start);
      EXPECT_LE(width_of(text.substr(start, end - start)), columns) << text;
      start = end + 1;
    }
  }
}

TEST(DeviceTable, ColumnsGoInTheStatedOrder) {
  const auto shows = [](std::size_t columns, const char* heading) {
    return heading_of(table_of({busy()}, terminal(columns))).find(heading) != std::string::npos;
  };
  std::size_t columns = 200;
  for (const char* next : {"UUID", "PCI", "SM CLOCK", "THROTTLED", "PROCS", "POWER", "NAME"}) {
    while (shows(columns, next)) --columns;
    for (const char* stays : {"GPU", "UTIL", "MEMORY", "TEMP"}) EXPECT_TRUE(shows(columns, stays));
  }
  EXPECT_FALSE(shows(columns, "UUID"));
}

TEST(DeviceTable, BarsAreForTerminalsWithRoom) {
  EXPECT_EQ(table_of({busy()}).find('#'), std::string::npos);
  EXPECT_NE(table_of({busy()}, terminal(200)).find("\u2501"), std::string::npos);
  EXPECT_EQ(table_of({busy()}, terminal(80)).find("\u2501"), std::string::npos);
}

TEST(DeviceTable, AZeroThatWasReadIsAZero) {
  EXPECT_NE(table_of({device(0, {{Metric::utilization_gpu, 0}})}).find(" 0 % "), std::string::npos);
}

TEST(DeviceTable, PowerWithoutLimitIsShown) {
  const std::string text = table_of({device(0, {{Metric::power_draw, 99'600}})});
  EXPECT_NE(text.find(" 100 W "), std::string::npos) << text;
}

TEST(DeviceTable, ALimitAloneIsNoPower) {
  const std::string text = table_of({device(0, {{Metric::power_limit, 700'000}})});
  EXPECT_EQ(text.find(" W "), std::string::npos) << text;
}

TEST(DeviceTable, ErrorColumnAppearsOnlyWithErrors) {
  EXPECT_EQ(table_of({busy()}).find("UNCORRECTED"), std::string::npos);
  const std::string none = table_of({device(0, {{Metric::ecc_uncorrected_aggregate, 0}})});
  EXPECT_EQ(none.find("UNCORRECTED"), std::string::npos);
  const std::string some = table_of({busy(), device(1, {{Metric::ecc_uncorrected_aggregate, 2}})});
  EXPECT_NE(some.find("UNCORRECTED"), std::string::npos);
}

TEST(DeviceTable, SaysBelowWhyAGpuIsNotWell) {
  protocol::Device lost;
  lost.index = 3;
  lost.condition = DeviceCondition::unavailable;
  lost.why = "GPU is lost";
  const std::string text = table_of({busy(), lost});
  EXPECT_NE(text.find("\n  3  -"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\nGPU 3 is unavailable: GPU is lost\n")) << text;
}

TEST(DeviceTable, SaysBelowWhyAGpuIsNotHealthy) {
  protocol::Device hot = busy(1);
  hot.health = Health::degraded;
  hot.health_reasons = {"78 C", "something else"};
  EXPECT_TRUE(table_of({busy(), hot}).ends_with("\nGPU 1 is degraded: 78 C; something else\n"));
  hot.health = Health::healthy;
  EXPECT_EQ(table_of({hot}).find("GPU 1 is"), std::string::npos);
  hot.health = std::nullopt;
  EXPECT_EQ(table_of({hot}).find("GPU 1 is"), std::string::npos) << "not known is no alarm";
}

TEST(DeviceTable, AReasonIsBrokenToFitNotCut) {
  protocol::Device sick = busy(3);
  sick.condition = DeviceCondition::unresponsive;
  sick.why = "the driver did not respond in time, and what it said last is shown";
  const std::string text = table_of({sick}, terminal(40));
  EXPECT_TRUE(
      text.ends_with("\nGPU 3 is unresponsive: the driver did\nnot respond in time, and what it "
                     "said\nlast is shown\n"))
      << text;
}

TEST(DeviceTable, HeatIsColouredByTheHealthThresholds) {
  Screen screen = terminal(200);
  screen.color = true;
  const auto at = [&](std::int64_t celsius) {
    return table_of({device(0, {{Metric::temperature_core, celsius}})}, screen);
  };
  EXPECT_EQ(at(75).find("\x1b[33m75"), std::string::npos);
  EXPECT_NE(at(76).find("\x1b[33m76"), std::string::npos);
  EXPECT_NE(at(86).find("\x1b[1;31m86"), std::string::npos);
}

TEST(DeviceTable, SaysThatGpusAreSimulated) {
  auto snapshot = snapshot_with({busy()});
  EXPECT_EQ(device_table(snapshot, {}).str().find("simulated"), std::string::npos);
  snapshot.simulated = true;
  EXPECT_TRUE(device_table(snapshot, {}).str().ends_with("\nThese GPUs are simulated.\n"));
}

TEST(Complaint, GoesToStderrAndGivesTheExitCode) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(print_error({Errc::unavailable, "no driver"}), 5);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "gpuyard: no driver\n");
}

TEST(Complaint, PrintsCauseAndEachHintOnItsLine) {
  testing::internal::CaptureStderr();
  print_error({Errc::denied, "permission denied", "alice is not\nin the group g",
               "usermod -aG g alice  # then log in again\ngpuyard power"});
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "gpuyard: permission denied\n"
            "  cause: alice is not\n"
            "         in the group g\n"
            "  try:   usermod -aG g alice  # then log in again\n"
            "         gpuyard power\n");
}

TEST(Complaint, DaemonHintCannotControlTheTerminal) {
  testing::internal::CaptureStderr();
  print_error({Errc::denied, "no", "a\x1b[2J", "b\x1b[2J"});
  EXPECT_EQ(testing::internal::GetCapturedStderr().find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace gpuyard::cli
