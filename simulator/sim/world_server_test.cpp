#include <sys/wait.h>

#include <gtest/gtest.h>

#include <csignal>

#include "base/spawn.h"
#include "sim/driver_commands.h"
#include "sim/gpu_commands.h"
#include "sim/gpu_lookup.h"
#include "sim/world_server_for_tests.h"

namespace gpuyard::sim {
namespace {

// A process that lives until it is told to end.
class Child {
 public:
  Child() : pid_(*spawn({.program = "/bin/sleep", .arguments = {"60"}})) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { end(); }
  pid_t pid() const { return pid_; }
  void end() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_;
};

TEST_F(WorldServerTest, SettingIsVisibleToReadersOnReturn) {
  EXPECT_EQ(set(WriteKind::power_limit, 350'000), nvml::kSuccess);
  EXPECT_EQ(reader_.record(0)->power_limit_mw, 350'000U);
  EXPECT_EQ(reader_.record(1)->power_limit_mw, 700'000U);
}

TEST_F(WorldServerTest, AGpuHasThreeKindsOfNames) {
  const GpuStatus gpu = world_status(directory_.path())->gpus[2];
  for (const std::string& name :
       {std::string("2"), gpu.uuid, gpu.pci_address, gpu.pci_address.substr(4)}) {
    const auto index = find_gpu_index(directory_.path(), name);
    ASSERT_TRUE(index) << name;
    EXPECT_EQ(*index, 2) << name;
  }
  EXPECT_EQ(*find_gpu_index(directory_.path(), "all"), kEveryGpu);
  EXPECT_EQ(*find_gpu_index(directory_.path(), "77"), 77);  // for the world server to refuse
  for (const char* name : {"", "-1", "GPU-", "1x", "0000:ff:00.0"}) {
    EXPECT_EQ(find_gpu_index(directory_.path(), name).error().code, Errc::not_found) << name;
  }
  ASSERT_EQ(execute({.verb = Verb::unplug, .gpu = 0}).failed, 0U);
  EXPECT_EQ(*find_gpu_index(directory_.path(), gpu.uuid), 1);
}

TEST_F(WorldServerTest, AttachedProcessIsListedUntilExit) {
  Child child;
  ASSERT_EQ(attach(1, child.pid(), 3 * kGiB).failed, 0U);
  server_.advance(1);
  ASSERT_EQ(processes(1).size(), 1U);
  EXPECT_EQ(processes(1)[0].pid, static_cast<std::uint32_t>(child.pid()));
  EXPECT_EQ(processes(1)[0].memory_bytes, 3 * kGiB);
  EXPECT_EQ(processes(1)[0].sm_percent, 50U);
  EXPECT_EQ(reader_.record(1)->gpu_utilization_percent, 50U);
  EXPECT_TRUE(processes(0).empty());
  child.end();
  server_.remove_exited();
  server_.advance(1);
  EXPECT_TRUE(processes(1).empty());
  EXPECT_EQ(reader_.record(1)->gpu_utilization_percent, 0U);
  EXPECT_EQ(reader_.record(1)->memory_used_bytes, 0U);
}

TEST_F(WorldServerTest, ReattachReplacesMemoryAndAllowsSeveralGpus) {
  const Child child;
  ASSERT_EQ(attach(0, child.pid(), kGiB).failed, 0U);
  ASSERT_EQ(attach(0, child.pid(), 2 * kGiB).failed, 0U);
  ASSERT_EQ(attach(2, child.pid(), 3 * kGiB).failed, 0U);
  ASSERT_EQ(processes(0).size(), 1U);
  EXPECT_EQ(processes(0)[0].memory_bytes, 2 * kGiB);
  EXPECT_EQ(processes(2)[0].memory_bytes, 3 * kGiB);
}

TEST_F(WorldServerTest, ReusedOrImpossiblePidIsRefused) {
  Command command{.verb = Verb::attach};
  command.process = {.pid = static_cast<std::uint32_t>(::getpid()), .start_time = 1};
  EXPECT_EQ(errc_from_number(execute(command).errc), Errc::not_found);  // a pid used again
  command.process.pid = kMaxRealPid + 5;
  EXPECT_EQ(errc_from_number(execute(command).errc), Errc::invalid);
  EXPECT_TRUE(processes(0).empty());
}

TEST_F(WorldServerTest, ProcessExceedingMemoryIsRefusedWithoutChange) {
  const Child first;
  const Child second;
  ASSERT_EQ(attach(0, first.pid(), 60 * kGiB).failed, 0U);
  EXPECT_EQ(errc_from_number(attach(0, second.pid(), 60 * kGiB).errc), Errc::conflict);
  EXPECT_EQ(errc_from_number(attach(0, second.pid(), UINT64_MAX).errc), Errc::conflict);
  EXPECT_EQ(errc_from_number(attach(0, second.pid(), kGiB, 1001).errc), Errc::invalid);
  EXPECT_EQ(processes(0).size(), 1U);
}

TEST_F(WorldServerTest, TheComputeModeAdmitsOneProcessOrNone) {
  const Child first;
  const Child second;
  ASSERT_EQ(set(WriteKind::compute_mode, 3), nvml::kSuccess);
  EXPECT_EQ(attach(0, first.pid()).failed, 0U);
  EXPECT_EQ(errc_from_number(attach(0, second.pid()).errc), Errc::conflict);
  ASSERT_EQ(set(WriteKind::compute_mode, 2, kOwner, 1), nvml::kSuccess);
  EXPECT_EQ(errc_from_number(attach(1, second.pid()).errc), Errc::conflict);
}

TEST_F(WorldServerTest, TenThousandProcessesFitOnOneGpu) {
  ASSERT_EQ(synthetic(1, 10'000).failed, 0U);
  ASSERT_EQ(processes(1).size(), 10'000U);
  EXPECT_EQ(processes(1)[0].pid, kMaxRealPid + kMaxProcesses + 1);
  EXPECT_EQ(processes(1)[9'999].pid, kMaxRealPid + kMaxProcesses + 10'000);
  EXPECT_EQ(errc_from_number(synthetic(2, 6'385).errc), Errc::busy);
  EXPECT_EQ(synthetic(2, 6'384).failed, 0U);
  EXPECT_EQ(processes(2).size(), 6'384U);
  EXPECT_EQ(errc_from_number(synthetic(0, kMaxProcesses + 1).errc), Errc::invalid);
  EXPECT_EQ(synthetic(1, 0).failed, 0U);
  EXPECT_TRUE(processes(1).empty());
  EXPECT_EQ(processes(2).size(), 6'384U);
}

TEST_F(WorldServerTest, SyntheticProcessesLeaveRealOnesAlone) {
  const Child child;
  ASSERT_EQ(attach(0, child.pid()).failed, 0U);
  ASSERT_EQ(synthetic(0, 5).failed, 0U);
  ASSERT_EQ(synthetic(0, 2).failed, 0U);
  ASSERT_EQ(processes(0).size(), 3U);
  EXPECT_EQ(processes(0)[0].pid, static_cast<std::uint32_t>(child.pid()));
}

TEST_F(WorldServerTest, MemoryErrorsAndXidsBecomeEvents) {
  Command errors{.verb = Verb::add_ecc_errors, .gpu = 1};
  errors.location = EccLocation::device_memory;
  errors.count = 2;
  ASSERT_EQ(execute(errors).failed, 0U);
  errors.uncorrected = 1;
  ASSERT_EQ(execute(errors).failed, 0U);
  Command xid{.verb = Verb::raise_event, .gpu = 2};
  xid.count = 79;
  ASSERT_EQ(execute(xid).failed, 0U);
  xid.count = 1000;
  EXPECT_EQ(errc_from_number(execute(xid).errc), Errc::invalid);

  const auto events = reader_.events_after(0);
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0].type, kEventSingleBitEcc);
  EXPECT_EQ(events[1].type, kEventDoubleBitEcc);
  EXPECT_EQ(events[2].data, 48U);
  EXPECT_EQ(events[3].data, 79U);
  EXPECT_EQ(events[3].gpu, 2U);
  EXPECT_EQ(reader_.events_after(3).size(), 1U);
  EXPECT_TRUE(reader_.events_after(4).empty());
  EXPECT_EQ(reader_.event_count(), 4U);
  const GpuRecord record = *reader_.record(1);
  EXPECT_EQ(record.ecc_volatile_corrected[2], 2U);
  EXPECT_EQ(record.ecc_aggregate_uncorrected[2], 2U);
  EXPECT_EQ(record.rows.uncorrected_rows, 2U);
}

TEST_F(WorldServerTest, OnlyTheLast256EventsAreKept) {
  Command xid{.verb = Verb::raise_event};
  for (std::uint64_t i = 0; i < 300; ++i) {
    xid.count = i;
    execute(xid);
  }
  const auto events = reader_.events_after(10);
  ASSERT_EQ(events.size(), kMaxEvents);
  EXPECT_EQ(events.back().data, 299U);
}

TEST_F(WorldServerTest, ImplausibleFaultsAreRefused) {
  Command command{.verb = Verb::inject};
  for (const std::int32_t code : {-1, 31, 998, 1000}) {
    command.fault = failing(Call::temperature, code);
    EXPECT_EQ(errc_from_number(execute(command).errc), Errc::invalid) << code;
  }
  command.fault = failing(static_cast<Call>(kCallCount), 3);
  EXPECT_EQ(errc_from_number(execute(command).errc), Errc::invalid);
  command.fault = failing(Call::temperature, 0);
  EXPECT_EQ(errc_from_number(execute(command).errc), Errc::invalid);
  command.fault = failing(Call::temperature, 0, 20);
  EXPECT_EQ(execute(command).failed, 0U);
}

}  // namespace
}  // namespace gpuyard::sim
