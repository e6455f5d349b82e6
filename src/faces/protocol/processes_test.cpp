#include "faces/protocol/processes.h"

#include <gtest/gtest.h>

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "faces/protocol/resources.h"

namespace gpuyard::protocol {
namespace {

const GpuProcess kListedProcess{7, ProcessKind::compute, 1024, 42};

// Knows one process.
class OneProcess final : public ProcessDirectory {
 public:
  OneProcess() {
    facts.pid = 7;
    facts.started = TimePoint(std::chrono::milliseconds(123'450));
    facts.started_at = WallTime(std::chrono::milliseconds(1'767'225'600'250));
    facts.uid = facts.real_uid = 1000;
    facts.user = std::string("alice");
    facts.command = "python3";
    facts.arguments = std::vector<std::string>{"python3", "secret.py"};
    CgroupInfo placement;
    placement.slurm_job = "123";
    facts.cgroup = placement;
  }
  Result<const ProcessMetadata*> find(std::uint32_t pid) const override {
    if (pid == facts.pid) return &facts;
    return Error{Errc::not_found, "no such number"};
  }
  std::uint64_t revision() const override { return 0; }

  ProcessMetadata facts;
};

bool can_always_see(const ProcessMetadata&) {
  return true;
}
bool can_never_see(const ProcessMetadata&) {
  return false;
}

TEST(Process, MetadataComesFromDirectory) {
  const OneProcess book;
  EXPECT_EQ(json::to_json(process_of(kListedProcess, &book)),
            R"({"pid":7,"kind":"compute","memory_bytes":1024,"sm_percent":42,"user":"alice",)"
            R"("uid":1000,"command":"python3","container":null,"container_runtime":null,)"
            R"("pod":null,"slurm_job":"123","slurm_step":null,"unit":null,"slice":null,)"
            R"("started_at":"2026-01-01T00:00:00.250Z","started_after_boot_ms":123450,)"
            R"("cpu_percent":null,"host_memory_bytes":null,"missing":{}})");
}

TEST(Process, UnknownPidHasReason) {
  const OneProcess book;
  const auto process = process_of({8, ProcessKind::graphics, {}, {}}, &book);
  EXPECT_EQ(process.user, std::nullopt);
  EXPECT_EQ(process.missing.at("process"), "no such number");
  EXPECT_FALSE(process_of(kListedProcess, nullptr).missing.at("process").empty());
}

TEST(Process, MissingUserNameAndCgroupHaveReasons) {
  OneProcess book;
  book.facts.user = Error{Errc::not_found, "user 1000 has no name here"};
  book.facts.cgroup = Error{Errc::denied, "its cgroup is hidden"};
  const auto process = process_of(kListedProcess, &book);
  EXPECT_EQ(process.uid, 1000U);
  EXPECT_EQ(process.missing.at("user"), "user 1000 has no name here");
  EXPECT_EQ(process.missing.at("container"), "its cgroup is hidden");
  EXPECT_EQ(process.command, "python3");
}

TEST(Process, HasNoArgumentsWhereAllClientsShareIt) {
  const OneProcess book;
  EXPECT_EQ(json::to_json(process_of(kListedProcess, &book)).find("secret"), std::string::npos);
}

TEST(Process, ArgumentsAreVisibleOnlyWithPermission) {
  const OneProcess book;
  const auto seen = process_with_arguments(kListedProcess, &book, can_always_see);
  EXPECT_EQ(seen.arguments->back(), "secret.py");
  const auto hidden = process_with_arguments(kListedProcess, &book, can_never_see);
  EXPECT_EQ(hidden.arguments, std::nullopt);
  EXPECT_TRUE(hidden.missing.contains("arguments"));
  EXPECT_EQ(json::to_json(hidden).find("secret"), std::string::npos);
}

TEST(Process, InFullSurvivesJson) {
  const OneProcess book;
  const auto process = process_with_arguments(kListedProcess, &book, can_always_see);
  const auto text = json::to_json(process);
  EXPECT_TRUE(text.starts_with(R"({"pid":7,)") && text.ends_with(R"(["python3","secret.py"]})"))
      << text;
  const auto again = json::from_json<ProcessWithArguments>(text);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, process);
}

TEST(DeviceProcesses, ListHasEntriesAndAge) {
  constexpr TimePoint kNow{std::chrono::hours(1)};
  const OneProcess book;
  DeviceState device;
  device.info.index = 3;
  EXPECT_EQ(
      describe(device_processes_of(device, kNow, &book, can_never_see).missing.at("processes")),
      "not read yet");
  device.sample.set(ProcessList{kNow - std::chrono::seconds(4), std::vector{kListedProcess}});
  const auto answer = device_processes_of(device, kNow, &book, can_always_see);
  EXPECT_EQ(answer.index, 3U);
  EXPECT_EQ(answer.age_ms, 4000);
  ASSERT_EQ(answer.processes->size(), 1U);
  EXPECT_EQ(answer.processes->front().user, "alice");
}

}  // namespace
}  // namespace gpuyard::protocol
