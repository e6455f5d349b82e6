// Leases after an error of the disk and after a restart.
#include <gtest/gtest.h>

#include "core/lease/lease_fixture_for_tests.h"
#include "core/lease/lease_manager.h"

namespace gpuyard::lease {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

TEST(LeaseRecovery, UncommittedClaimIsNeitherAnsweredNorVisible) {
  LeaseFixture world(1);
  world.ground.start(10);
  world.disk.stuck = true;
  const auto unheard = world.claim(10, "a");
  ASSERT_FALSE(unheard);
  EXPECT_EQ(unheard.error().code, Errc::timed_out);
  EXPECT_EQ(world.leases->find("a"), nullptr);
}

TEST(LeaseRecovery, RestartKeepsLeaseAndFence) {
  LeaseFixture world(2);
  world.ground.start(10);
  world.ground.start(11);
  const auto held = world.claim(10, "a");
  ASSERT_TRUE(held);
  world.kill();
  world.loop.advance(seconds(5));
  world.begin();
  EXPECT_EQ(world.state("a"), LeaseState::held);
  EXPECT_EQ(world.leases->find("a")->fence, held->fence);
  const auto next = world.claim(11, "b");
  ASSERT_TRUE(next);
  EXPECT_NE(next->gpus, held->gpus);
  EXPECT_GT(next->fence, held->fence);
}

TEST(LeaseRecovery, CordonOfAllGpusIsLiftedPerGpu) {
  LeaseFixture world(2);
  world.kill();
  world.disk.cordons["*"] = {kEveryGpu, "gpuyard", "a lease could not be read", {}};
  world.disk.cordons["GPU-1"] = {"GPU-1", "uid 0", "new fan", {}};
  world.begin();
  const GpuPool& gpus = world.leases->gpus();
  EXPECT_EQ(gpus.cordon_of("GPU-0")->reason, "a lease could not be read");
  EXPECT_EQ(gpus.cordon_of("GPU-1")->reason, "new fan; and: a lease could not be read");
  world.ground.start(10);
  EXPECT_EQ(world.claim(10, "a")->state, LeaseState::waiting);
  world.leases->uncordon({0, true}, {"GPU-0"}, [](const auto&) {});
  world.loop.run_posted();
  EXPECT_EQ(world.state("a"), LeaseState::held);
  world.kill();
  world.begin();
  EXPECT_FALSE(world.leases->gpus().cordon_of("GPU-0"));
  EXPECT_TRUE(world.leases->gpus().cordon_of("GPU-1"));
  world.leases->uncordon({0, true}, {"GPU-1"}, [](const auto&) {});
  world.loop.run_posted();
  EXPECT_FALSE(world.leases->gpus().cordon_of("GPU-1"));
  world.leases->cordon({0, true}, {"GPU-1"}, "new fan", [](const auto&) {});
  EXPECT_EQ(world.leases->gpus().cordon_of("GPU-1")->reason, "new fan");
}

TEST(LeaseRecovery, CordonOfAllGpusAppliesToNewGpus) {
  LeaseFixture world(2);
  world.kill();
  world.disk.cordons["*"] = {kEveryGpu, "gpuyard", "a lease could not be read", {}};
  const auto fleet = world.fleet;
  world.fleet.pop_back();
  world.begin();
  world.leases->uncordon({0, true}, {"GPU-0"}, [](const auto&) {});
  world.loop.run_posted();
  world.ground.start(10);
  world.ground.start(11);
  ASSERT_TRUE(world.claim(10, "a"));
  world.leases->on_gpus(fleet);
  world.loop.run_posted();
  EXPECT_EQ(world.claim(11, "b")->state, LeaseState::waiting);
  EXPECT_EQ(world.leases->gpus().withheld_reason("GPU-1")->first, "cordoned");
}

TEST(LeaseRecovery, CordonOfAllGpusAppliesToLateInventory) {
  LeaseFixture world(1);
  world.kill();
  world.disk.cordons["*"] = {kEveryGpu, "gpuyard", "a lease could not be read", {}};
  const auto fleet = std::exchange(world.fleet, {});
  world.begin();
  world.leases->on_gpus(fleet);
  world.loop.run_posted();
  world.ground.start(10);
  EXPECT_EQ(world.claim(10, "a")->state, LeaseState::waiting);
}

TEST(LeaseRecovery, RequestsAreUnavailableBeforeLoad) {
  LeaseFixture world(1);
  world.ground.start(10);
  ASSERT_TRUE(world.claim(10, "a"));
  world.leases.emplace(world.loop, world.ground, world.disk, world.policy, "boot-1");
  world.leases->start();
  EXPECT_FALSE(world.leases->has_loaded());
  EXPECT_EQ(world.leases->check_holds_gpu("a", 1, "GPU-0").error().code, Errc::unavailable);
  std::optional<Errc> end;
  world.leases->end_job({0, true}, "slurm-17", [&](const auto& done) { end = done.error().code; });
  world.loop.run_posted();
  EXPECT_EQ(end, Errc::unavailable);
  EXPECT_TRUE(world.leases->has_loaded());
  EXPECT_TRUE(world.leases->check_holds_gpu("a", 1, "GPU-0"));
}

TEST(LeaseRecovery, OverdueLeaseExpiresOnceEndOverdueIsEnabled) {
  LeaseFixture world(1);
  world.ground.start(10);
  LeaseSpec spec;
  spec.max_hold_time = seconds(60);
  ASSERT_TRUE(world.claim(10, "a", spec));
  world.loop.advance(seconds(70));
  EXPECT_TRUE(world.leases->find("a")->overdue);
  EXPECT_EQ(world.state("a"), LeaseState::held);
  world.kill();
  world.policy.end_overdue = true;
  world.begin();
  world.loop.advance(seconds(10));
  EXPECT_NE(world.state("a"), LeaseState::held);
  EXPECT_EQ(world.leases->find("a")->end_reason, EndReason::expired);
}

TEST(LeaseRecovery, EndOverdueExpiresLeaseAfterHoldTime) {
  LeaseFixture world(1, {.fairness = {}, .end_overdue = true});
  world.ground.start(10);
  LeaseSpec spec;
  spec.max_hold_time = seconds(60);
  ASSERT_TRUE(world.claim(10, "a", spec));
  world.loop.advance(seconds(50));
  EXPECT_EQ(world.state("a"), LeaseState::held);
  world.loop.advance(seconds(20));
  EXPECT_EQ(world.leases->find("a")->end_reason, EndReason::expired);
}

TEST(LeaseRecovery, HolderExitDuringDowntimeEndsLease) {
  LeaseFixture world(1);
  world.ground.start(10);
  ASSERT_TRUE(world.claim(10, "a"));
  world.kill();
  world.ground.stop(10);
  world.begin();
  world.loop.run_posted();
  EXPECT_EQ(world.state("a"), LeaseState::ended);
}

TEST(LeaseRecovery, AnotherProcessWithTheSameNumberIsNotTheHolder) {
  LeaseFixture world(1);
  world.ground.start(10);
  ASSERT_TRUE(world.claim(10, "a"));
  world.kill();
  world.ground.stop(10);
  world.loop.advance(seconds(1));
  world.ground.start(10);
  world.begin();
  world.loop.run_posted();
  EXPECT_EQ(world.state("a"), LeaseState::ended);
}

TEST(LeaseRecovery, EndedLeaseIsPrunedFromDiskAfterRetention) {
  LeaseFixture world(2);
  world.ground.start(10);
  world.ground.start(11);
  ASSERT_TRUE(world.claim(10, "a"));
  ASSERT_TRUE(world.claim(11, "goes on"));
  ASSERT_TRUE(world.release(10, "a"));
  world.loop.advance(hours(23));
  EXPECT_EQ(world.disk.leases.size(), 2U);
  world.loop.advance(hours(2));
  EXPECT_EQ(world.leases->find("a"), nullptr);
  EXPECT_EQ(world.disk.leases.size(), 1U);
}

TEST(LeaseRecovery, ARebootEndsThemAll) {
  LeaseFixture world(1);
  world.ground.start(10);
  ASSERT_TRUE(world.claim(10, "a"));
  world.kill();
  world.begin("boot-2");
  EXPECT_EQ(world.leases->find("a")->end_reason, EndReason::node_reboot);
}

TEST(LeaseRecovery, RestartKeepsQueueOrder) {
  LeaseFixture world(1);
  for (std::uint32_t pid : {10U, 11U, 12U}) world.ground.start(pid);
  ASSERT_TRUE(world.claim(10, "a"));
  ASSERT_TRUE(world.claim(11, "b"));
  world.kill();
  world.begin();
  ASSERT_TRUE(world.claim(12, "c"));
  ASSERT_TRUE(world.claim(11, "b"));
  ASSERT_TRUE(world.release(10, "a"));
  world.loop.advance(seconds(1));
  EXPECT_EQ(world.state("b"), LeaseState::held);
  EXPECT_EQ(world.state("c"), LeaseState::waiting);
}

TEST(LeaseRecovery, FullDiskRefusesClaimButKeepsHeldLease) {
  LeaseFixture world(2);
  world.ground.start(10);
  world.ground.start(11);
  ASSERT_TRUE(world.claim(10, "a"));
  world.disk.fails = Error{Errc::unavailable, "the disk is full"};
  const auto refused = world.claim(11, "b");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::unavailable);
  EXPECT_NE(refused.error().message.find("the disk is full"), std::string::npos);
  world.loop.advance(seconds(10));
  EXPECT_FALSE(world.leases->notes().empty());
  EXPECT_EQ(world.claim(11, "b").error().code, Errc::unavailable);
  world.disk.fails.reset();
  world.loop.advance(seconds(10));
  EXPECT_EQ(world.state("a"), LeaseState::held);
  const auto granted = world.claim(11, "b");
  ASSERT_TRUE(granted);
  EXPECT_EQ(granted->state, LeaseState::held);
}

TEST(LeaseRecovery, UnidentifiedHolderCountsAsAliveAndBlocksGrants) {
  LeaseFixture world(1);
  world.ground.start(10);
  ASSERT_TRUE(world.claim(10, "a"));
  world.kill();
  world.ground.slow = true;
  world.begin();
  world.loop.advance(seconds(5));
  EXPECT_EQ(world.state("a"), LeaseState::held);
  EXPECT_TRUE(world.leases->grant_error());
  world.ground.slow = false;
  world.loop.advance(seconds(1));
  EXPECT_FALSE(world.leases->grant_error());
  EXPECT_EQ(world.state("a"), LeaseState::held);
}

TEST(LeaseRecovery, HolderExitIsRedetectedAfterFailedCommit) {
  LeaseFixture world(1);
  world.ground.start(10);
  ASSERT_TRUE(world.claim(10, "a"));
  world.disk.fails = Error{Errc::unavailable, "the disk is full"};
  world.ground.stop(10);
  world.loop.advance(seconds(10));
  EXPECT_NE(world.disk.leases.at("a").state, LeaseState::ended);
  world.disk.fails.reset();
  world.loop.advance(seconds(10));
  EXPECT_EQ(world.state("a"), LeaseState::ended);
}

TEST(LeaseRecovery, CordonSurvivesRestart) {
  LeaseFixture world(1);
  world.ground.start(1, 0);
  world.ground.start(10);
  world.leases->cordon(world.ground.caller(1), {"GPU-0"}, "fan rattles", [](const auto&) {});
  world.loop.run_posted();
  world.kill();
  world.begin();
  EXPECT_EQ(world.claim(10, "a")->state, LeaseState::waiting);
  EXPECT_EQ(world.leases->gpus().withheld_reason("GPU-0")->first, "cordoned");
  world.leases->uncordon(world.ground.caller(1), {"GPU-0"}, [](const auto&) {});
  world.loop.run_posted();
  EXPECT_EQ(world.state("a"), LeaseState::held);
}

}  // namespace
}  // namespace gpuyard::lease
