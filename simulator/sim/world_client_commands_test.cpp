// Commands to a running world server, from its own user's tools and from clients.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "gpu/nvml/abi.h"
#include "sim/setting.h"
#include "sim/world_client.h"
#include "sim/world_client_for_tests.h"

namespace gpuyard::sim {
namespace {

using WorldClientCommandsTest = WorldClientTest;

TEST_F(WorldClientCommandsTest, FaultsAndLoadsApplyBeforeCallReturns) {
  const auto world = start();
  Fault fault = failing(Call::utilization_rates, 999, kInfiniteLatency);
  fault.lost = 1;
  ASSERT_TRUE(inject(directory(), 2, fault));
  ASSERT_TRUE(set_load(directory(), 1, {.kind = WorkloadKind::bursty, .load = 0.5}));
  const auto status = world_status(directory());
  EXPECT_TRUE(status->gpus[2].lost);
  EXPECT_EQ(status->gpus[2].faults, std::vector<std::string>{"utilization_rates: never returns"});
  EXPECT_FALSE(status->gpus[1].lost);
  EXPECT_EQ(status->gpus[1].workload, "bursty");
  ASSERT_TRUE(clear_faults(directory(), 2));
  EXPECT_FALSE(world_status(directory())->gpus[2].lost);
  EXPECT_EQ(world_status(directory())->gpus[2].faults, std::vector<std::string>{});
}

TEST_F(WorldClientCommandsTest, ASetterCallIsAnsweredWithNvmlsCode) {
  const auto world = start();
  const auto limit = [&](std::uint64_t milliwatts) {
    return call_setter(directory(),
                       {.kind = WriteKind::power_limit, .gpu = 1, .values = {milliwatts, 0}});
  };
  EXPECT_EQ(limit(350'000), nvml::kSuccess);
  EXPECT_EQ(limit(350), nvml::kInvalidArgument);
  const auto status = world_status(directory());
  EXPECT_EQ(status->gpus[1].power_limit_w, 350.0);
  ASSERT_EQ(status->writes.size(), 2U);
  EXPECT_EQ(status->writes[0].setting, "power_limit");
  EXPECT_EQ(status->writes[0].values, std::vector<std::uint64_t>{350'000});
  EXPECT_EQ(status->writes[0].pid, static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(status->writes[0].uid, ::geteuid());
  EXPECT_EQ(status->writes[1].nvml_code, nvml::kInvalidArgument);
}

TEST_F(WorldClientCommandsTest, StoppedOrDeadServerFailsSetterCallPromptly) {
  const auto world = start(WorldLifetime::independent);
  const SettingWrite write{.kind = WriteKind::persistence_mode, .gpu = 0, .values = {1, 0}};
  const TimePoint before = BootClock::now();
  ::kill(world->server_pid(), SIGSTOP);
  EXPECT_EQ(call_setter(directory(), write), nvml::kTimeout);
  ::kill(world->server_pid(), SIGKILL);
  EXPECT_EQ(call_setter(directory(), write), nvml::kDriverNotLoaded);
  EXPECT_EQ(call_setter("/no/such/place", write), nvml::kDriverNotLoaded);
  EXPECT_LT(to_milliseconds(BootClock::now() - before), 5000);
}

TEST_F(WorldClientCommandsTest, CommandsChangeGpuStateAndRefuseInvalidArguments) {
  const auto world = start();
  EXPECT_TRUE(attach_process(directory(), 0, ::getpid(), {.vram_bytes = 1 << 30, .load = 0.25}));
  EXPECT_TRUE(set_synthetic_processes(directory(), 1, 3, {.load = 0.1}));
  EXPECT_EQ(set_synthetic_processes(directory(), 1, -3, {}).error().code, Errc::invalid);
  EXPECT_EQ(attach_process(directory(), 0, ::getpid(), {.load = 1.5}).error().code, Errc::invalid);
  EXPECT_EQ(attach_process(directory(), 0, 4'194'304, {}).error().code, Errc::not_found);
  EXPECT_TRUE(add_ecc_errors(directory(), 2, {.uncorrected = true, .count = 2}));
  EXPECT_TRUE(raise_xid(directory(), 2, 79));
  EXPECT_TRUE(set_heat(directory(), 2, 20));
  EXPECT_EQ(set_heat(directory(), 2, -1).error().code, Errc::invalid);
  auto status = world_status(directory());
  ASSERT_EQ(status->gpus[0].processes.size(), 1U);
  EXPECT_EQ(status->gpus[0].processes[0].pid, static_cast<std::uint32_t>(::getpid()));
  EXPECT_FALSE(status->gpus[0].processes[0].synthetic);
  EXPECT_EQ(status->gpus[1].processes.size(), 3U);
  EXPECT_TRUE(status->gpus[1].processes[2].synthetic);
  EXPECT_TRUE(status->gpus[2].repair_pending);
  EXPECT_EQ(status->gpus[2].ecc_uncorrected, 2U);
  EXPECT_EQ(status->events.size(), 3U);
  EXPECT_EQ(reset_gpu(directory(), 0).error().code, Errc::conflict);
  EXPECT_TRUE(reset_gpu(directory(), 2));
  EXPECT_FALSE(world_status(directory())->gpus[2].repair_pending);
}

TEST_F(WorldClientCommandsTest, UnknownGpuOrInvalidLoadIsRefused) {
  const auto world = start();
  EXPECT_EQ(inject(directory(), 4, {}).error().code, Errc::not_found);
  EXPECT_EQ(inject(directory(), -1, {}).error().code, Errc::not_found);
  EXPECT_EQ(set_load(directory(), 0, {.load = 7.0}).error().code, Errc::invalid);
}

TEST_F(WorldClientCommandsTest, CommandsWithoutServerAreNotFound) {
  EXPECT_EQ(inject(directory(), 0, {}).error().code, Errc::not_found);
  EXPECT_EQ(stop_world(directory()).error().code, Errc::not_found);
}

}  // namespace
}  // namespace gpuyard::sim
