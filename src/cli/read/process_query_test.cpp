#include "cli/read/process_query.h"

#include <gtest/gtest.h>

#include "cli/read/devices_for_tests.h"

namespace gpuyard::cli {
namespace {

protocol::Snapshot with_processes(const std::vector<GpuProcess>& processes) {
  protocol::Device shown = busy();
  for (const GpuProcess& process : processes) {
    shown.processes->push_back(protocol::process_of(process, nullptr));
  }
  return snapshot_with({shown});
}

std::string csv(const std::vector<std::string>& names, const protocol::Snapshot& snapshot,
                const InFull& in_full = {}) {
  return process_csv(*parse_process_fields(names), process_answer(snapshot, in_full), {snapshot},
                     {});
}

TEST(ProcessQuery, IsInTheLayoutOfNvidiaSmi) {
  EXPECT_EQ(csv({"gpu_uuid,pid,used_memory"},
                with_processes({{7, ProcessKind::compute, 3 * kGiB, {}},
                                {8, ProcessKind::compute_and_graphics, {}, {}}})),
            "gpu_uuid, pid, used_gpu_memory [MiB]\nGPU-0, 7, 3072 MiB\nGPU-0, 8, [N/A]\n");
}

TEST(ProcessQuery, WhoOnlyDrawsIsNoComputeProcess) {
  EXPECT_EQ(csv({"pid"}, with_processes({{7, ProcessKind::graphics, kGiB, {}}})), "pid\n");
}

TEST(ProcessQuery, ANameIsTheProgramWhereThatMayBeSeen) {
  auto snapshot = with_processes({{7, ProcessKind::compute, kGiB, {}}});
  EXPECT_EQ(csv({"name"}, snapshot), "process_name\n[Not Found]\n");
  snapshot.devices.front().processes->front().command = "python3";
  EXPECT_EQ(csv({"name"}, snapshot), "process_name\npython3\n");
  protocol::ProcessInFull process{snapshot.devices.front().processes->front(), {}};
  process.arguments = std::vector<std::string>{"/usr/bin/py,thon\x1b", "a.py"};
  protocol::DeviceProcesses full;
  full.processes = std::vector{process};
  EXPECT_EQ(csv({"name"}, snapshot, {{0, full}}), "process_name\n/usr/bin/py?thon?\n");
}

TEST(ProcessQuery, AnUnknownFieldIsRefused) {
  const auto fields = parse_process_fields({"pid,nonsense"});
  ASSERT_FALSE(fields.ok());
  EXPECT_EQ(fields.error().code, Errc::invalid);
}

TEST(ProcessQuery, AGpuWhoseListIsNotKnownSaysWhyInTheJson) {
  const auto answer = process_answer(snapshot_with({device(4, {})}));
  EXPECT_TRUE(answer.processes.empty());
  EXPECT_EQ(answer.missing.at("GPU-4"), "Not Supported");
}

}  // namespace
}  // namespace gpuyard::cli
