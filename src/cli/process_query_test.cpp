#include "cli/process_query.h"

#include <unistd.h>

#include <gtest/gtest.h>

#include "cli/devices_for_tests.h"

namespace gpuyard::cli {
namespace {

protocol::Snapshot with_processes(std::vector<GpuProcess> processes) {
  protocol::Device shown = busy();
  shown.processes = std::move(processes);
  return snapshot_with({shown});
}

std::string csv(const std::vector<std::string>& names, const protocol::Snapshot& snapshot,
                bool local = false) {
  return process_csv(*parse_process_fields(names), process_answer(snapshot, local), {snapshot}, {});
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

TEST(ProcessQuery, ANameIsLookedUpOnThisMachineOnly) {
  const auto own = static_cast<std::uint32_t>(::getpid());
  const auto snapshot = with_processes({{own, ProcessKind::compute, kGiB, {}}});
  EXPECT_NE(csv({"name"}, snapshot, true).find("cli_test"), std::string::npos);
  EXPECT_EQ(csv({"name"}, snapshot, false), "process_name\n[Not Found]\n");
}

TEST(ProcessQuery, AnUnknownFieldIsRefused) {
  const auto fields = parse_process_fields({"pid,nonsense"});
  ASSERT_FALSE(fields.ok());
  EXPECT_EQ(fields.error().code, Errc::invalid);
}

TEST(ProcessQuery, AGpuWhoseListIsNotKnownSaysWhyInTheJson) {
  const auto answer = process_answer(snapshot_with({device(4, {})}), false);
  EXPECT_TRUE(answer.processes.empty());
  EXPECT_EQ(answer.missing.at("GPU-4"), "Not Supported");
}

}  // namespace
}  // namespace gpuyard::cli
