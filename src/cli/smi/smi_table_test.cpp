#include "cli/smi/smi_table.h"

#include <ctime>

#include <gtest/gtest.h>

#include "base/text.h"
#include "cli/read/devices_for_tests.h"

namespace gpuyard::cli {
namespace {

protocol::Device loaded() {
  return device(0, {{Metric::utilization_gpu, 100},
                    {Metric::memory_used, (479LL + 19'818) << 20U},
                    {Metric::memory_reserved, 479LL << 20U},
                    {Metric::memory_total, 81'559LL << 20U},
                    {Metric::temperature_core, 59},
                    {Metric::power_draw, 629'480},
                    {Metric::power_limit, 700'000},
                    {Metric::performance_state, 0},
                    {Metric::persistence_mode, 1},
                    {Metric::compute_mode, 0},
                    {Metric::ecc_mode, 1},
                    {Metric::ecc_uncorrected_volatile, 0},
                    {Metric::mig_mode, 0}});
}

ListedProcess process(std::uint32_t pid, const std::string& name, std::int64_t mebibytes) {
  ListedProcess listed;
  listed.pid = pid;
  listed.name = name;
  listed.memory_bytes = mebibytes << 20U;
  return listed;
}

SmiReport fleet_report(std::vector<protocol::Device> devices, const std::string& version,
                       std::vector<ListedProcess> processes = {}) {
  SmiReport report{{snapshot_with(std::move(devices))}, {}, WallTime()};
  report.queried.snapshot.driver.driver_version = version;
  report.queried.snapshot.driver.cuda_driver_version = "12.2";
  report.processes.processes = std::move(processes);
  return report;
}

// Without its first line, the time.
std::string table(const SmiReport& report) {
  const std::string text = smi_table(report);
  return text.substr(text.find('\n') + 1);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::string_view rest = text;
  while (!rest.empty()) lines.emplace_back(take_until('\n', rest));
  return lines;
}

// In the lines of nvidia-smi 580 for an H100 under load; whether a display is active is not known.
TEST(SmiTable, MatchesDriver580) {
  EXPECT_EQ(
      table(fleet_report(
          {loaded()}, "580.65.06",
          {process(11327, "/root/tools/memhog", 2566), process(11345, "./gpu_burn", 15690)})),
      "+-----------------------------------------------------------------------------------------+"
      "\n"
      "| NVIDIA-SMI 580.65.06              Driver Version: 580.65.06      CUDA Version: 12.2     "
      "|\n"
      "+-----------------------------------------+------------------------+----------------------+"
      "\n"
      "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC "
      "|\n"
      "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. "
      "|\n"
      "|                                         |                        |               MIG M. "
      "|\n"
      "|=========================================+========================+======================|"
      "\n"
      "|   0  NVIDIA H100 80GB HBM3          On  |   00000000:1A:00.0 N/A |                    0 "
      "|\n"
      "| N/A   59C    P0            629W /  700W |   19818MiB /  81559MiB |    100%      Default "
      "|\n"
      "|                                         |                        |             Disabled "
      "|\n"
      "+-----------------------------------------+------------------------+----------------------+"
      "\n"
      "\n"
      "+-----------------------------------------------------------------------------------------+"
      "\n"
      "| Processes:                                                                              "
      "|\n"
      "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory "
      "|\n"
      "|        ID   ID                                                               Usage      "
      "|\n"
      "|=========================================================================================|"
      "\n"
      "|    0   N/A  N/A           11327      C   /root/tools/memhog                     2566MiB "
      "|\n"
      "|    0   N/A  N/A           11345      C   ./gpu_burn                            15690MiB "
      "|\n"
      "+-----------------------------------------------------------------------------------------+"
      "\n");
}

TEST(SmiTable, IsNarrowerForADriverBefore550) {
  EXPECT_EQ(
      table(fleet_report({loaded()}, "535.129.03")),
      "+---------------------------------------------------------------------------------------+\n"
      "| NVIDIA-SMI 535.129.03             Driver Version: 535.129.03   CUDA Version: 12.2     |\n"
      "|-----------------------------------------+----------------------+----------------------+\n"
      "| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |\n"
      "| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |\n"
      "|                                         |                      |               MIG M. |\n"
      "|=========================================+======================+======================|\n"
      "|   0  NVIDIA H100 80GB HBM3          On  | 00000000:1A:00.0 N/A |                    0 |\n"
      "| N/A   59C    P0             629W / 700W |  19818MiB / 81559MiB |    100%      Default |\n"
      "|                                         |                      |             Disabled |\n"
      "+-----------------------------------------+----------------------+----------------------+\n"
      "                                                                                         \n"
      "+---------------------------------------------------------------------------------------+\n"
      "| Processes:                                                                            |\n"
      "|  GPU   GI   CI        PID   Type   Process name                            GPU Memory |\n"
      "|        ID   ID                                                             Usage      |\n"
      "|=======================================================================================|\n"
      "|  No running processes found                                                           |\n"
      "+---------------------------------------------------------------------------------------+"
      "\n");
}

TEST(SmiTable, AMissingValueIsNeverZero) {
  protocol::Device bare = device(1, {});
  bare.name = "NVIDIA RTX 6000 Ada Generation";
  const auto lines = lines_of(table(fleet_report({bare}, "580.65.06")));
  EXPECT_EQ(lines[7],
            "|   1  NVIDIA RTX 6000 Ada Gene...    N/A |   00000000:1A:00.0 N/A |                  "
            "N/A |");
  EXPECT_EQ(lines[8],
            "| N/A   N/A    N/A            N/A /   N/A |        N/A /       N/A |     N/A         "
            " N/A |");
}

TEST(SmiTable, ALostGpuHasErrors) {
  protocol::Device lost = loaded();
  lost.condition = DeviceCondition::unavailable;
  const auto lines = lines_of(table(fleet_report({lost}, "580.65.06")));
  EXPECT_EQ(lines[8],
            "| ERR! ERR!    ERR!          ERR! /  ERR! |       ERR! /      ERR! |    ERR!         "
            "ERR! |");
}

TEST(SmiTable, ModesHaveNvidiaSmisWords) {
  protocol::Device shown = device(0, {{Metric::compute_mode, 3},
                                      {Metric::ecc_mode, 0},
                                      {Metric::persistence_mode, 0},
                                      {Metric::fan_speed, 30},
                                      {Metric::mig_mode, 0},
                                      {Metric::mig_mode_pending, 1}});
  const auto lines = lines_of(table(fleet_report({shown}, "580.65.06")));
  EXPECT_NE(lines[7].find(" Off |"), std::string::npos);
  EXPECT_TRUE(lines[7].ends_with("|                  Off |")) << lines[7];
  EXPECT_TRUE(lines[8].starts_with("| 30% ")) << lines[8];
  EXPECT_TRUE(lines[8].ends_with("   E. Process |")) << lines[8];
  EXPECT_TRUE(lines[9].ends_with("            Disabled* |")) << lines[9];
}

TEST(SmiTable, EveryLineHasTheSameWidth) {
  auto many =
      fleet_report({loaded(), busy(1), device(2, {})}, "570.86.15",
                   {process(4'194'303, "/opt/a/very/long/name/of/a/program/that/is/cut", 1)});
  many.processes.missing["GPU-2"] = {MissingReason::no_permission, "Insufficient Permissions"};
  for (const std::string& line : lines_of(table(many))) {
    EXPECT_TRUE(line.empty() || line.size() == 91) << line;
  }
}

TEST(SmiTable, ProcessNameCannotBeginLine) {
  const auto text = table(fleet_report({loaded()}, "580.65.06", {process(7, "a\nb\x1b[2J", 1)}));
  EXPECT_EQ(text.find("a\nb"), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(SmiTime, IsThatOfTheMachine) {
  const std::string text = smi_time(WallTime(std::chrono::seconds(1'784'016'758)));
  EXPECT_EQ(text.size(), std::string_view("Tue Jul 14 08:12:38 2026").size());
  EXPECT_TRUE(text.ends_with(" 2026")) << text;
}

TEST(DriverBranch, IsTheNumberBeforeTheFirstDot) {
  auto snapshot = snapshot_with({});
  EXPECT_EQ(driver_branch(snapshot), 535);
  snapshot.driver.driver_version = "unknown";
  EXPECT_EQ(driver_branch(snapshot), 0);
  snapshot.driver.driver_version.reset();
  EXPECT_EQ(driver_branch(snapshot), 0);
}

}  // namespace
}  // namespace gpuyard::cli
