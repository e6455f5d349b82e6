#include "sim/demo.h"

#include <gtest/gtest.h>

#include "sim/gpu_commands.h"
#include "sim/physics.h"
#include "sim/world_server_for_tests.h"
#include "sim/world_server_main.h"

namespace gpuyard::sim {
namespace {

using namespace std::chrono_literals;

TEST(Demo, AtLeastHalfOfTheGpusStayIdle) {
  for (std::size_t gpus = 1; gpus <= kMaxGpus; ++gpus) {
    const auto roles = demo_roles(gpus);
    EXPECT_EQ(roles.empty(), gpus < kMinDemoGpus) << gpus;
    EXPECT_LE(2 * roles.size(), gpus);
    for (const DemoRole& role : roles) EXPECT_LT(role.gpu, gpus);
  }
}

TEST(Demo, NamesArePrefixedAndShort) {
  for (const DemoRole& role : demo_roles(kMaxGpus)) {
    const std::string_view name = role.name;
    EXPECT_TRUE(name.starts_with("demo-")) << name;
    EXPECT_LE(name.size(), 15U) << "the kernel cuts longer names";
  }
}

// The alert "thermal" begins at 80 degrees, and a GPU is unhealthy from 85 on.
TEST(Demo, HotGpuIsAnAlertAndNotUnhealthy) {
  World world = make_world(*find_model("h100"), 4, {});
  const DemoRole role = demo_roles(4).front();
  ASSERT_TRUE(set_load(world.gpus[role.gpu], load_command(0, role.workload), world.elapsed));
  while (world.elapsed < 72s) step(world, kStep);
  heat_demo_gpu(world);
  double hottest = 0;
  std::chrono::milliseconds hot{0};
  while (world.elapsed < 240s) {
    step(world, kStep);
    hottest = std::max(hottest, world.gpus[role.gpu].temperature);
    if (world.gpus[role.gpu].temperature >= 80.0) hot += kStep;
  }
  EXPECT_LT(hottest, 84.5);
  EXPECT_GT(hot, 120s) << "of 168";
}

TEST(Demo, SmallWorldHasNoDemo) {
  WorldOptions few{.gpus = 3};
  make_demo(few, "/run/x.sock");
  EXPECT_FALSE(few.demo);
  EXPECT_EQ(few.load.kind, WorkloadKind::mixed);
  WorldOptions mixed{.model = "a100:2,t4:2"};
  make_demo(mixed, "/run/x.sock");
  EXPECT_EQ(mixed.demo, "/run/x.sock");
  EXPECT_EQ(mixed.load.kind, WorkloadKind::idle);
  WorldOptions wrong{.model = "a100:1,t4:1", .gpus = 4};
  make_demo(wrong);
  EXPECT_FALSE(wrong.demo) << "the keeper says what is wrong with it";
}

TEST(Demo, WorldServerArgumentsIncludeDemo) {
  for (const std::string daemon : {"", "/run/x.sock"}) {
    WorldServerOptions options;
    options.world.demo = daemon;
    const auto parsed = parse_world_server_arguments(world_server_arguments(options));
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(parsed->world.demo, daemon);
  }
  EXPECT_FALSE(parse_world_server_arguments(world_server_arguments({}))->world.demo);
}

TEST(Demo, WrongWordsAreRefused) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{}, {"player"}, {"leases", "1", "/s"}, {"other", "1", "2", "3"}}) {
    EXPECT_EQ(demo_main(words), 2);
  }
}

using DemoServerTest = WorldServerTest;

TEST_F(DemoServerTest, ChangedDemandKeepsTheTimeOfArrival) {
  const pid_t us = ::getpid();
  ASSERT_EQ(attach(0, us, kGiB, 500).failed, 0U);
  const auto before = processes(0);
  ASSERT_EQ(attach(0, us, 2 * kGiB, 100).failed, 0U);
  const auto after = processes(0);
  ASSERT_EQ(after.size(), 1U);
  EXPECT_EQ(after[0].memory_bytes, 2 * kGiB);
  EXPECT_EQ(after[0].since_ns, before.at(0).since_ns);
}

}  // namespace
}  // namespace gpuyard::sim
