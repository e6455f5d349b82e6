#include "cli/read/processes.h"

#include <gtest/gtest.h>

#include "cli/read/devices_for_tests.h"

namespace gpuyard::cli {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30U;

ListedProcess alices() {
  ListedProcess process;
  process.gpu_index = 3;
  process.pid = 4711;
  process.memory_bytes = 10 * kGiB;
  process.sm_percent = 80;
  process.user = "alice";
  process.uid = 1000;
  process.command = "python3";
  process.unit = "session-3.scope";
  process.started_at = *from_rfc3339("2026-01-31T12:00:01.250Z");
  return process;
}

TEST(ProcessTable, RowHasUserGpuAndCommand) {
  ProcessAnswer answer;
  ListedProcess mine = alices();
  mine.arguments = std::vector<std::string>{"python3", "train.py"};
  answer.processes = {alices(), mine};
  EXPECT_EQ(process_table(answer, {}),
            "GPU   PID  USER   KIND       SM    MEMORY  SINCE (UTC)       UNIT, CONTAINER OR JOB  "
            "COMMAND\n"
            "  3  4711  alice  compute  80 %  10.0 GiB  2026-01-31 12:00  session-3.scope         "
            "python3\n"
            "  3  4711  alice  compute  80 %  10.0 GiB  2026-01-31 12:00  session-3.scope         "
            "python3 train.py\n");
}

TEST(ProcessTable, UnknownProcessesAreListedWithReason) {
  ProcessAnswer answer;
  ListedProcess unknown;
  unknown.pid = 7;
  unknown.missing["process"] = "no such number";
  ListedProcess another = unknown;
  another.pid = 8;
  answer.processes = {unknown, another};
  answer.missing["GPU-1"] = {MissingReason::not_supported, "Not Supported"};
  const std::string text = process_table(answer, {});
  EXPECT_NE(text.find("unknown (no such number): 7, 8\n"), std::string::npos) << text;
  EXPECT_NE(text.find("GPU-1: no process list: Not Supported\n"), std::string::npos) << text;
}

TEST(ProcessTable, AUserWithoutANameIsANumber) {
  ListedProcess process = alices();
  process.user.reset();
  EXPECT_EQ(user_text(process), "1000");
}

TEST(ProcessTable, MostSpecificLocationIsShown) {
  ListedProcess process = alices();
  EXPECT_EQ(location_text(process), "session-3.scope");
  process.container = std::string(64, 'a');
  EXPECT_EQ(location_text(process), "container aaaaaaaaaaaa");
  process.container_runtime = "docker";
  EXPECT_EQ(location_text(process), "docker aaaaaaaaaaaa");
  process.pod = "8dbc5577-d0e2-4706-8787-57d52c03ddf2";
  EXPECT_EQ(location_text(process), "pod 8dbc5577-d0e2-4706-8787-57d52c03ddf2");
  process.slurm_job = "123";
  EXPECT_EQ(location_text(process), "slurm 123");
  process.slurm_step = "batch";
  EXPECT_EQ(location_text(process), "slurm 123.batch");
}

TEST(ProcessTable, NarrowScreenKeepsUserAndCommand) {
  ProcessAnswer answer;
  answer.processes = {alices()};
  Screen narrow;
  narrow.columns = 45;
  const std::string text = process_table(answer, narrow);
  for (const char* kept : {"4711", "alice", "10.0 GiB", "python3"}) {
    EXPECT_NE(text.find(kept), std::string::npos) << text;
  }
  EXPECT_EQ(text.find("session-3"), std::string::npos) << text;
}

}  // namespace

namespace {

protocol::Snapshot with_processes(const std::vector<GpuProcess>& processes) {
  protocol::Device shown = busy();
  for (const GpuProcess& process : processes) {
    shown.processes->push_back(protocol::process_of(process, nullptr));
  }
  return snapshot_with({shown});
}

std::string csv(const std::vector<std::string>& names, const protocol::Snapshot& snapshot,
                const DetailsByGpu& in_full = {}) {
  return process_csv(*parse_process_fields(names), process_answer(snapshot, in_full), {snapshot},
                     {});
}

TEST(ProcessQuery, IsInTheLayoutOfNvidiaSmi) {
  EXPECT_EQ(csv({"gpu_uuid,pid,used_memory"},
                with_processes({{7, ProcessKind::compute, 3 * kGiB, {}},
                                {8, ProcessKind::compute_and_graphics, {}, {}}})),
            "gpu_uuid, pid, used_gpu_memory [MiB]\nGPU-0, 7, 3072 MiB\nGPU-0, 8, [N/A]\n");
}

TEST(ProcessQuery, GraphicsProcessIsExcluded) {
  EXPECT_EQ(csv({"pid"}, with_processes({{7, ProcessKind::graphics, kGiB, {}}})), "pid\n");
}

TEST(ProcessQuery, NameIsProgramPathIfVisible) {
  auto snapshot = with_processes({{7, ProcessKind::compute, kGiB, {}}});
  EXPECT_EQ(csv({"name"}, snapshot), "process_name\n[Not Found]\n");
  snapshot.devices.front().processes->front().command = "python3";
  EXPECT_EQ(csv({"name"}, snapshot), "process_name\npython3\n");
  protocol::ProcessWithArguments process{snapshot.devices.front().processes->front(), {}};
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

TEST(ProcessQuery, UnknownListHasReasonInJson) {
  const auto answer = process_answer(snapshot_with({device(4, {})}));
  EXPECT_TRUE(answer.processes.empty());
  EXPECT_EQ(describe(answer.missing.at("GPU-4")), "Not Supported");
}

TEST(StaysTable, SpanHasUserAndEndOrNow) {
  protocol::ProcessSpans stays;
  stays.processes.push_back({.index = 3,
                             .uuid = "GPU-1",
                             .pid = 4711,
                             .started_at = {},
                             .user = "alice",
                             .uid = 1000,
                             .command = "python3",
                             .lease = {},
                             .peak_memory_bytes = 10 * kGiB,
                             .first_seen = "2026-01-31T12:00:00.000Z",
                             .last_seen = "2026-01-31T12:30:00.000Z",
                             .there = true});
  const std::string now = process_span_table(stays, {}, {});
  EXPECT_NE(now.find("  3  4711  alice     10.0 GiB"), std::string::npos) << now;
  EXPECT_NE(now.find("now          -      python3\n"), std::string::npos) << now;
  stays.processes[0].there = false;
  stays.complete = false;
  EXPECT_EQ(process_span_table(stays, {}, {}).str().find(" now "), std::string::npos);
  EXPECT_NE(process_span_table(stays, {}, {}).str().find("Only the newest"), std::string::npos);
}

}  // namespace
}  // namespace gpuyard::cli
