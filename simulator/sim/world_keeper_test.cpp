#include "sim/world_keeper.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>

#include "base/boot.h"
#include "base/spawn.h"
#include "nvml/abi.h"
#include "sim/world_for_tests.h"
#include "sim/world_reader.h"

namespace gpuyard::sim {
namespace {

using namespace std::chrono_literals;

constexpr Peer kOwner{.pid = 11, .uid = 0, .is_owner = true};
constexpr Peer kStranger{.pid = 22, .uid = 1234, .is_owner = false};
constexpr std::uint64_t kGiB = 1ULL << 30;

// A keeper without a process around it: its commands and what readers then see.
class WorldKeeperTest : public ::testing::Test {
 protected:
  explicit WorldKeeperTest(SettersFor setters = SettersFor::owner)
      : keeper_(make_keeper(setters)), reader_(*WorldReader::open(directory_.path())) {}

  Reply say(Command command, const Peer& peer = kOwner) { return keeper_.execute(command, peer); }
  std::int32_t set(Setting setting, std::uint64_t value, const Peer& peer = kOwner,
                   std::uint32_t gpu = 0) {
    Command command{.verb = Verb::set, .gpu = gpu};
    command.write = {.setting = setting, .gpu = gpu, .values = {value, 0}};
    return say(command, peer).nvml_code;
  }
  Reply attach(std::uint32_t gpu, pid_t pid, std::uint64_t memory = kGiB,
               std::uint32_t permille = 500) {
    Command command{.verb = Verb::attach, .gpu = gpu};
    command.process = {.pid = static_cast<std::uint32_t>(pid),
                       .memory_bytes = memory,
                       .start_time = process_start_time(pid).value_or(0),
                       .load_permille = permille};
    return say(command);
  }
  Reply synthetic(std::uint32_t gpu, std::uint64_t count) {
    Command command{.verb = Verb::set_synthetic, .gpu = gpu};
    command.process = {.memory_bytes = 1 << 20, .load_permille = 1};
    command.count = count;
    return say(command);
  }
  std::vector<ProcessUse> processes(std::uint32_t gpu) const {
    return *reader_.processes(gpu, *reader_.record(gpu));
  }

  ScratchDirectory directory_;
  WorldKeeper keeper_;
  WorldReader reader_;

 private:
  WorldKeeper make_keeper(SettersFor setters) const {
    World world = make_world(*find_model("h100"), 3, {});
    auto writer = WorldWriter::create(directory_.path(), world);
    return {std::move(world), *std::move(writer), *ProcessWatch::create(), setters};
  }
};

class OpenWorldKeeperTest : public WorldKeeperTest {
 protected:
  OpenWorldKeeperTest() : WorldKeeperTest(SettersFor::everyone) {}
};

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

TEST_F(WorldKeeperTest, ASettingIsInForceForReadersWhenItReturns) {
  EXPECT_EQ(set(Setting::power_limit, 350'000), nvml::kSuccess);
  EXPECT_EQ(reader_.record(0)->power_limit_mw, 350'000U);
  EXPECT_EQ(reader_.record(1)->power_limit_mw, 700'000U);
}

TEST_F(WorldKeeperTest, StrangersMaySetNothing) {
  EXPECT_EQ(set(Setting::power_limit, 350'000, kStranger), nvml::kNoPermission);
  EXPECT_EQ(reader_.record(0)->power_limit_mw, 700'000U);
}

TEST_F(OpenWorldKeeperTest, UnlessTheWorldIsOpenToEveryone) {
  EXPECT_EQ(set(Setting::power_limit, 350'000, kStranger), nvml::kSuccess);
  const Reply reply = say({.verb = Verb::clear_faults}, kStranger);
  EXPECT_EQ(errc_from_number(reply.errc), Errc::denied);
  EXPECT_FALSE(keeper_.stopping());
}

TEST_F(WorldKeeperTest, EveryWriteIsLoggedInOrderTakenOrRefused) {
  set(Setting::power_limit, 350'000);
  set(Setting::power_limit, 1, kOwner, 2);
  set(Setting::persistence_mode, 1, kStranger, 1);
  set(Setting::power_limit, 350'000, kOwner, 77);
  const auto writes = reader_.writes();
  ASSERT_EQ(writes.size(), 4U);
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(writes[i].sequence, i + 1);
  EXPECT_EQ(writes[0].nvml_code, nvml::kSuccess);
  EXPECT_EQ(writes[0].write.values[0], 350'000U);
  EXPECT_EQ(writes[1].nvml_code, nvml::kInvalidArgument);
  EXPECT_EQ(writes[1].write.gpu, 2U);
  EXPECT_EQ(writes[2].nvml_code, nvml::kNoPermission);
  EXPECT_EQ(writes[2].write.setting, Setting::persistence_mode);
  EXPECT_EQ(writes[2].peer_pid, 22U);
  EXPECT_EQ(writes[2].peer_uid, 1234U);
  EXPECT_EQ(writes[3].nvml_code, nvml::kInvalidArgument);
}

TEST_F(WorldKeeperTest, TheLast1024WritesAreKept) {
  for (std::uint64_t i = 0; i < 3000; ++i) set(Setting::power_limit, i);
  const auto writes = reader_.writes();
  ASSERT_EQ(writes.size(), kWritesKept);
  EXPECT_EQ(writes.front().write.values[0], 3000U - kWritesKept);
  EXPECT_EQ(writes.back().write.values[0], 2999U);
}

TEST_F(WorldKeeperTest, ARealProcessIsOnItsGpuUntilItDies) {
  Child child;
  ASSERT_EQ(attach(1, child.pid(), 3 * kGiB).failed, 0U);
  keeper_.advance(1);
  ASSERT_EQ(processes(1).size(), 1U);
  EXPECT_EQ(processes(1)[0].pid, static_cast<std::uint32_t>(child.pid()));
  EXPECT_EQ(processes(1)[0].memory_bytes, 3 * kGiB);
  EXPECT_EQ(processes(1)[0].sm_percent, 50U);
  EXPECT_EQ(reader_.record(1)->gpu_utilization_percent, 50U);
  EXPECT_TRUE(processes(0).empty());
  child.end();
  keeper_.remove_dead();
  keeper_.advance(1);
  EXPECT_TRUE(processes(1).empty());
  EXPECT_EQ(reader_.record(1)->gpu_utilization_percent, 0U);
  EXPECT_EQ(reader_.record(1)->memory_used_bytes, 0U);
}

TEST_F(WorldKeeperTest, AttachedAgainAProcessAsksAnewAndMayUseSeveralGpus) {
  const Child child;
  ASSERT_EQ(attach(0, child.pid(), kGiB).failed, 0U);
  ASSERT_EQ(attach(0, child.pid(), 2 * kGiB).failed, 0U);
  ASSERT_EQ(attach(2, child.pid(), 3 * kGiB).failed, 0U);
  ASSERT_EQ(processes(0).size(), 1U);
  EXPECT_EQ(processes(0)[0].memory_bytes, 2 * kGiB);
  EXPECT_EQ(processes(2)[0].memory_bytes, 3 * kGiB);
}

TEST_F(WorldKeeperTest, WhatIsNoProcessAnyMoreIsRefused) {
  Command command{.verb = Verb::attach};
  command.process = {.pid = static_cast<std::uint32_t>(::getpid()), .start_time = 1};
  EXPECT_EQ(errc_from_number(say(command).errc), Errc::not_found);  // a pid used again
  command.process.pid = kLastRealPid + 5;
  EXPECT_EQ(errc_from_number(say(command).errc), Errc::invalid);
  EXPECT_TRUE(processes(0).empty());
}

TEST_F(WorldKeeperTest, ProcessesThatDoNotFitAreRefusedAndChangeNothing) {
  const Child first;
  const Child second;
  ASSERT_EQ(attach(0, first.pid(), 60 * kGiB).failed, 0U);
  EXPECT_EQ(errc_from_number(attach(0, second.pid(), 60 * kGiB).errc), Errc::conflict);
  EXPECT_EQ(errc_from_number(attach(0, second.pid(), UINT64_MAX).errc), Errc::conflict);
  EXPECT_EQ(errc_from_number(attach(0, second.pid(), kGiB, 1001).errc), Errc::invalid);
  EXPECT_EQ(processes(0).size(), 1U);
}

TEST_F(WorldKeeperTest, TheComputeModeAdmitsOneProcessOrNone) {
  const Child first;
  const Child second;
  ASSERT_EQ(set(Setting::compute_mode, 3), nvml::kSuccess);
  EXPECT_EQ(attach(0, first.pid()).failed, 0U);
  EXPECT_EQ(errc_from_number(attach(0, second.pid()).errc), Errc::conflict);
  ASSERT_EQ(set(Setting::compute_mode, 2, kOwner, 1), nvml::kSuccess);
  EXPECT_EQ(errc_from_number(attach(1, second.pid()).errc), Errc::conflict);
}

TEST_F(WorldKeeperTest, TenThousandProcessesFitOnOneGpu) {
  ASSERT_EQ(synthetic(1, 10'000).failed, 0U);
  ASSERT_EQ(processes(1).size(), 10'000U);
  EXPECT_EQ(processes(1)[0].pid, kLastRealPid + kMaxProcesses + 1);
  EXPECT_EQ(processes(1)[9'999].pid, kLastRealPid + kMaxProcesses + 10'000);
  EXPECT_EQ(errc_from_number(synthetic(2, 6'385).errc), Errc::busy);
  EXPECT_EQ(synthetic(2, 6'384).failed, 0U);
  EXPECT_EQ(processes(2).size(), 6'384U);
  EXPECT_EQ(errc_from_number(synthetic(0, kMaxProcesses + 1).errc), Errc::invalid);
  EXPECT_EQ(synthetic(1, 0).failed, 0U);
  EXPECT_TRUE(processes(1).empty());
  EXPECT_EQ(processes(2).size(), 6'384U);
}

TEST_F(WorldKeeperTest, SyntheticProcessesLeaveRealOnesAlone) {
  const Child child;
  ASSERT_EQ(attach(0, child.pid()).failed, 0U);
  ASSERT_EQ(synthetic(0, 5).failed, 0U);
  ASSERT_EQ(synthetic(0, 2).failed, 0U);
  ASSERT_EQ(processes(0).size(), 3U);
  EXPECT_EQ(processes(0)[0].pid, static_cast<std::uint32_t>(child.pid()));
}

TEST_F(WorldKeeperTest, MemoryErrorsAndXidsBecomeEvents) {
  Command errors{.verb = Verb::add_ecc_errors, .gpu = 1};
  errors.location = EccLocation::device_memory;
  errors.count = 2;
  ASSERT_EQ(say(errors).failed, 0U);
  errors.uncorrected = 1;
  ASSERT_EQ(say(errors).failed, 0U);
  Command xid{.verb = Verb::raise_event, .gpu = 2};
  xid.count = 79;
  ASSERT_EQ(say(xid).failed, 0U);
  xid.count = 1000;
  EXPECT_EQ(errc_from_number(say(xid).errc), Errc::invalid);

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

TEST_F(WorldKeeperTest, OnlyTheLast256EventsAreKept) {
  Command xid{.verb = Verb::raise_event};
  for (std::uint64_t i = 0; i < 300; ++i) {
    xid.count = i;
    say(xid);
  }
  const auto events = reader_.events_after(10);
  ASSERT_EQ(events.size(), kEventsKept);
  EXPECT_EQ(events.back().data, 299U);
}

TEST_F(WorldKeeperTest, ImplausibleFaultsAreRefused) {
  Command command{.verb = Verb::inject};
  for (const std::int32_t code : {-1, 31, 998, 1000}) {
    command.fault = failing(Call::temperature, code);
    EXPECT_EQ(errc_from_number(say(command).errc), Errc::invalid) << code;
  }
  command.fault = failing(static_cast<Call>(kCallCount), 3);
  EXPECT_EQ(errc_from_number(say(command).errc), Errc::invalid);
  command.fault = failing(Call::temperature, 0);
  EXPECT_EQ(errc_from_number(say(command).errc), Errc::invalid);
  command.fault = failing(Call::temperature, 0, 20);
  EXPECT_EQ(say(command).failed, 0U);
}

}  // namespace
}  // namespace gpuyard::sim
