#include "cli/device_table.h"

#include <gtest/gtest.h>

#include "cli/terminal.h"

namespace gpuyard::cli {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30U;

protocol::Device device(std::uint32_t index,
                        std::map<Metric, std::optional<std::int64_t>> readings) {
  protocol::Device made;
  made.index = index;
  made.uuid = "GPU-" + std::to_string(index);
  made.pci_address = "0000:01:00.0";
  made.name = "NVIDIA H100";
  for (const auto& [metric, value] : readings) {
    Reading reading{metric, 0, {}, Missing{}};
    if (value) reading.value = *value;
    made.readings.sample.set(std::move(reading));
  }
  return made;
}

protocol::Device busy() {
  return device(0, {{Metric::utilization_gpu, 97},
                    {Metric::memory_used, 12 * kGiB + kGiB / 2},
                    {Metric::memory_total, 80 * kGiB},
                    {Metric::temperature_core, 71},
                    {Metric::power_draw, 612'700},
                    {Metric::power_limit, 700'000},
                    {Metric::clock_sm, 1980}});
}

std::string table_of(std::vector<protocol::Device> devices) {
  protocol::Snapshot snapshot;
  snapshot.devices = std::move(devices);
  return device_table(snapshot);
}

TEST(DeviceTable, HasARowForEachGpuWithADashForWhatIsMissing) {
  EXPECT_EQ(
      table_of({busy(), device(10, {})}),
      "GPU  NAME         UTIL           MEMORY  TEMP        POWER  SM CLOCK  PCI           UUID\n"
      "  0  NVIDIA H100  97 %  12.5 / 80.0 GiB  71 C  613 / 700 W  1980 MHz  0000:01:00.0  GPU-0\n"
      " 10  NVIDIA H100     -                -     -            -         -  0000:01:00.0  "
      "GPU-10\n");
}

TEST(DeviceTable, AZeroThatWasReadIsAZero) {
  EXPECT_NE(table_of({device(0, {{Metric::utilization_gpu, 0}})}).find(" 0 % "), std::string::npos);
}

TEST(DeviceTable, PowerIsShownWithoutALimitThatIsMissing) {
  const std::string text = table_of({device(0, {{Metric::power_draw, 99'600}})});
  EXPECT_NE(text.find(" 100 W "), std::string::npos) << text;
}

TEST(DeviceTable, ALimitAloneIsNoPower) {
  const std::string text = table_of({device(0, {{Metric::power_limit, 700'000}})});
  EXPECT_EQ(text.find(" W "), std::string::npos) << text;
}

TEST(DeviceTable, SaysBelowWhyAGpuIsNotWell) {
  protocol::Device lost;
  lost.index = 3;
  lost.why = "GPU is lost";
  const std::string text = table_of({busy(), lost});
  EXPECT_NE(text.find("\n  3  -"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\nGPU 3: GPU is lost\n")) << text;
}

TEST(DeviceTable, SaysThatGpusAreSimulated) {
  protocol::Snapshot snapshot;
  snapshot.devices = {busy()};
  EXPECT_EQ(device_table(snapshot).find("simulated"), std::string::npos);
  snapshot.simulated = true;
  EXPECT_TRUE(device_table(snapshot).ends_with("\nThese GPUs are simulated.\n"));
}

TEST(Table, AlignsByCharactersNotByBytes) {
  const Table table{{"A", "B"}, {false, true}, {{"45\u00B0C", "1"}, {"x", "100"}}};
  EXPECT_EQ(table.text(), "A       B\n45\u00B0C    1\nx     100\n");
}

TEST(Table, LeavesNoBlanksAtTheEndOfALine) {
  const Table table{{"A", "LONG HEADING"}, {false, false}, {{"1", "x"}}};
  EXPECT_EQ(table.text(), "A  LONG HEADING\n1  x\n");
}

TEST(Table, AWidthIsCountedInCharacters) {
  EXPECT_EQ(width_of(""), 0U);
  EXPECT_EQ(width_of("45\u00B0C"), 4U);
  EXPECT_EQ(width_of("\U0001F600"), 1U);
}

TEST(Complaint, GoesToStderrAndGivesTheExitCode) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(complain({Errc::unavailable, "no driver"}, "  try --simulate"), 5);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "gpuyard: no driver\n  try --simulate\n");
}

}  // namespace
}  // namespace gpuyard::cli
