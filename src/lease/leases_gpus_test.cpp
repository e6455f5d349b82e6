// Which GPUs are handed out, and who uses one outside any lease.
#include "lease/leases.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "lease/world_for_tests.h"

namespace gpuyard::lease {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Leases, WhatIsForcedLeavesItsProcessesOutside) {
  World world(1);
  world.ground.start(1, 0);
  for (std::uint32_t pid : {10U, 11U, 12U}) world.ground.start(pid);
  ASSERT_TRUE(world.claim(10, "a"));
  ASSERT_TRUE(world.claim(11, "b"));
  world.ground.running.at(12).lease = "a";
  world.ground.running.at(12).gpus = {"GPU-0"};
  world.ground.stop(10);
  world.loop.advance(seconds(1));
  ASSERT_EQ(world.state("a"), State::draining);
  ASSERT_TRUE(world.release(1, "a", {{}, true, "it hangs", 0}));
  EXPECT_EQ(world.leases->find("a")->why, "it hangs");
  EXPECT_EQ(world.state("b"), State::waiting);
  EXPECT_EQ(world.leases->gpus().withheld("GPU-0")->first, "squatted");
}

TEST(Leases, AGpuThatSomebodyUsesOutsideIsNotHandedOut) {
  World world(1);
  world.ground.start(10);
  world.ground.start(66, 2000);
  world.ground.running.at(66).gpus = {"GPU-0"};
  world.leases->on_processes();
  world.loop.run_posted();
  const auto waits = world.claim(10, "a");
  ASSERT_TRUE(waits);
  EXPECT_EQ(waits->state, State::waiting);
  ASSERT_EQ(world.leases->outlooks(10).size(), 1U);
  EXPECT_EQ(world.leases->outlooks(10).front().outlook.why, Hindrance::squatted);
  EXPECT_EQ(world.leases->gpus().withheld("GPU-0")->first, "squatted");
  world.ground.stop(66);
  world.leases->on_processes();
  world.loop.run_posted();
  EXPECT_EQ(world.state("a"), State::held);
}

TEST(Leases, AGpuWhoseMemoryIsUsedByNobodyThatCanBeSeenIsNotHandedOut) {
  World world(1);
  world.ground.start(10);
  world.fleet[0].free_bytes = std::int64_t{20} << 30;
  world.leases->on_gpus(world.fleet);
  EXPECT_EQ(world.claim(10, "a")->state, State::waiting);
  EXPECT_EQ(world.leases->gpus().withheld("GPU-0")->first, "in_use");
  world.fleet[0].free_bytes = world.fleet[0].total_bytes;
  world.leases->on_gpus(world.fleet);
  world.loop.run_posted();
  EXPECT_EQ(world.state("a"), State::held);
}

TEST(Leases, AGpuThatDrawsAScreenIsHandedOut) {
  World world(1);
  world.ground.start(10);
  world.fleet[0].free_bytes = std::int64_t{70} << 30;
  world.fleet[0].drawing_bytes = std::int64_t{9} << 30;
  world.leases->on_gpus(world.fleet);
  EXPECT_EQ(world.claim(10, "a")->state, State::held);
}

TEST(Leases, AGpuThatComesLaterIsLookedAtFirst) {
  World world(1);
  world.ground.start(10);
  world.ground.start(66);
  world.ground.running.at(66).gpus = {"GPU-1"};
  Wish both;
  both.gpus = 2;
  both.binding = Binding::detached;  // which is decided at once
  both.ttl = seconds(60);
  PoolGpu later = world.fleet[0];
  later.info.id = later.info.uuid = "GPU-1";
  later.info.index = 1;
  world.fleet.push_back(later);
  world.leases->on_gpus(world.fleet);
  EXPECT_EQ(world.leases->gpus().withheld("GPU-1")->first, "new");
  EXPECT_EQ(world.claim(10, "a", both)->state, State::waiting);
  EXPECT_EQ(world.leases->gpus().withheld("GPU-1")->first, "squatted");
  world.ground.stop(66);
  world.leases->on_processes();
  world.loop.run_posted();
  EXPECT_EQ(world.state("a"), State::held);
}

TEST(Leases, WhoIsOutsideMayBeAdoptedByHisUser) {
  World world(2);
  world.ground.start(10, 2000);
  world.ground.start(66);
  world.ground.running.at(66).gpus = {"GPU-1"};
  const auto adopt = [&](std::uint32_t caller) {
    return world.heard([&](const Leases::Answer& answer) {
      world.leases->adopt(world.ground.caller(caller), 66, "", answer);
    });
  };
  EXPECT_EQ(adopt(10).error().code, Errc::denied);
  const auto lease = adopt(66);
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->gpus, std::vector<DeviceId>{"GPU-1"});
  EXPECT_EQ(lease->state, State::held);
  EXPECT_EQ(adopt(66).error().code, Errc::conflict);
  world.ground.stop(66);
  world.loop.advance(seconds(1));
  EXPECT_EQ(world.state(lease->id), State::ended);
}

TEST(Leases, AGpuThatCannotBeReadYetIsLookedAtWhenItCan) {
  World world(2);
  world.ground.start(10);
  world.ground.start(66);
  world.ground.running.at(66).gpus = {"GPU-2"};
  world.ground.unreadable = {"GPU-2"};
  PoolGpu later = world.fleet[0];
  later.info.id = later.info.uuid = "GPU-2";
  later.info.index = 2;
  later.withheld = "unresponsive";
  world.fleet.push_back(later);
  world.leases->on_gpus(world.fleet);
  world.loop.run_posted();
  world.leases->on_processes();
  world.loop.run_posted();
  world.ground.unreadable.clear();
  world.fleet.back().withheld.clear();
  world.leases->on_gpus(world.fleet);
  Wish all;
  all.gpus = 3;
  all.binding = Binding::detached;
  all.ttl = seconds(60);
  EXPECT_EQ(world.claim(10, "a", all)->state, State::waiting);
  EXPECT_EQ(world.leases->gpus().withheld("GPU-2")->first, "squatted");
}

}  // namespace
}  // namespace gpuyard::lease
