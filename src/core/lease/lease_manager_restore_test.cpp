// Leases after an error of the disk and after a restart.
#include <gtest/gtest.h>

#include "core/lease/lease_fixture_for_tests.h"
#include "core/lease/lease_manager.h"

namespace gpuyard::lease {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

TEST(LeaseRecovery, UncommittedClaimIsNeitherAnsweredNorVisible) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  fixture.disk.stuck = true;
  const auto unheard = fixture.claim(10, "a");
  ASSERT_FALSE(unheard);
  EXPECT_EQ(unheard.error().code, Errc::timed_out);
  EXPECT_EQ(fixture.leases->find("a"), nullptr);
}

TEST(LeaseRecovery, RestartKeepsLeaseAndFence) {
  LeaseFixture fixture(2);
  fixture.observer.start(10);
  fixture.observer.start(11);
  const auto held = fixture.claim(10, "a");
  ASSERT_TRUE(held);
  fixture.kill();
  fixture.loop.advance(seconds(5));
  fixture.begin();
  EXPECT_EQ(fixture.state("a"), LeaseState::held);
  EXPECT_EQ(fixture.leases->find("a")->fence, held->fence);
  const auto next = fixture.claim(11, "b");
  ASSERT_TRUE(next);
  EXPECT_NE(next->gpus, held->gpus);
  EXPECT_GT(next->fence, held->fence);
}

TEST(LeaseRecovery, CordonOfAllGpusIsLiftedPerGpu) {
  LeaseFixture fixture(2);
  fixture.kill();
  fixture.disk.cordons["*"] = {kEveryGpu, "gpuyard", "a lease could not be read", {}};
  fixture.disk.cordons["GPU-1"] = {"GPU-1", "uid 0", "new fan", {}};
  fixture.begin();
  const GpuPool& gpus = fixture.leases->gpus();
  EXPECT_EQ(gpus.cordon_of("GPU-0")->reason, "a lease could not be read");
  EXPECT_EQ(gpus.cordon_of("GPU-1")->reason, "new fan; and: a lease could not be read");
  fixture.observer.start(10);
  EXPECT_EQ(fixture.claim(10, "a")->state, LeaseState::waiting);
  fixture.leases->uncordon({0, true}, {"GPU-0"}, [](const auto&) {});
  fixture.loop.run_posted();
  EXPECT_EQ(fixture.state("a"), LeaseState::held);
  fixture.kill();
  fixture.begin();
  EXPECT_FALSE(fixture.leases->gpus().cordon_of("GPU-0"));
  EXPECT_TRUE(fixture.leases->gpus().cordon_of("GPU-1"));
  fixture.leases->uncordon({0, true}, {"GPU-1"}, [](const auto&) {});
  fixture.loop.run_posted();
  EXPECT_FALSE(fixture.leases->gpus().cordon_of("GPU-1"));
  fixture.leases->cordon({0, true}, {"GPU-1"}, "new fan", [](const auto&) {});
  EXPECT_EQ(fixture.leases->gpus().cordon_of("GPU-1")->reason, "new fan");
}

TEST(LeaseRecovery, CordonOfAllGpusAppliesToNewGpus) {
  LeaseFixture fixture(2);
  fixture.kill();
  fixture.disk.cordons["*"] = {kEveryGpu, "gpuyard", "a lease could not be read", {}};
  const auto fleet = fixture.fleet;
  fixture.fleet.pop_back();
  fixture.begin();
  fixture.leases->uncordon({0, true}, {"GPU-0"}, [](const auto&) {});
  fixture.loop.run_posted();
  fixture.observer.start(10);
  fixture.observer.start(11);
  ASSERT_TRUE(fixture.claim(10, "a"));
  fixture.leases->on_gpus(fleet);
  fixture.loop.run_posted();
  EXPECT_EQ(fixture.claim(11, "b")->state, LeaseState::waiting);
  EXPECT_EQ(fixture.leases->gpus().withheld_reason("GPU-1")->first, "cordoned");
}

TEST(LeaseRecovery, CordonOfAllGpusAppliesToLateInventory) {
  LeaseFixture fixture(1);
  fixture.kill();
  fixture.disk.cordons["*"] = {kEveryGpu, "gpuyard", "a lease could not be read", {}};
  const auto fleet = std::exchange(fixture.fleet, {});
  fixture.begin();
  fixture.leases->on_gpus(fleet);
  fixture.loop.run_posted();
  fixture.observer.start(10);
  EXPECT_EQ(fixture.claim(10, "a")->state, LeaseState::waiting);
}

TEST(LeaseRecovery, RequestsAreUnavailableBeforeLoad) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  ASSERT_TRUE(fixture.claim(10, "a"));
  fixture.leases.emplace(fixture.loop, fixture.observer, fixture.disk, fixture.policy, "boot-1");
  fixture.leases->start();
  EXPECT_FALSE(fixture.leases->has_loaded());
  EXPECT_EQ(fixture.leases->check_holds_gpu("a", 1, "GPU-0").error().code, Errc::unavailable);
  std::optional<Errc> end;
  fixture.leases->end_job({0, true}, "slurm-17",
                          [&](const auto& done) { end = done.error().code; });
  fixture.loop.run_posted();
  EXPECT_EQ(end, Errc::unavailable);
  EXPECT_TRUE(fixture.leases->has_loaded());
  EXPECT_TRUE(fixture.leases->check_holds_gpu("a", 1, "GPU-0"));
}

TEST(LeaseRecovery, OverdueLeaseExpiresOnceEndOverdueIsEnabled) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  LeaseSpec spec;
  spec.max_hold_time = seconds(60);
  ASSERT_TRUE(fixture.claim(10, "a", spec));
  fixture.loop.advance(seconds(70));
  EXPECT_TRUE(fixture.leases->find("a")->overdue);
  EXPECT_EQ(fixture.state("a"), LeaseState::held);
  fixture.kill();
  fixture.policy.end_overdue = true;
  fixture.begin();
  fixture.loop.advance(seconds(10));
  EXPECT_NE(fixture.state("a"), LeaseState::held);
  EXPECT_EQ(fixture.leases->find("a")->end_reason, EndReason::expired);
}

TEST(LeaseRecovery, EndOverdueExpiresLeaseAfterHoldTime) {
  LeaseFixture fixture(1, {.fairness = {}, .end_overdue = true});
  fixture.observer.start(10);
  LeaseSpec spec;
  spec.max_hold_time = seconds(60);
  ASSERT_TRUE(fixture.claim(10, "a", spec));
  fixture.loop.advance(seconds(50));
  EXPECT_EQ(fixture.state("a"), LeaseState::held);
  fixture.loop.advance(seconds(20));
  EXPECT_EQ(fixture.leases->find("a")->end_reason, EndReason::expired);
}

TEST(LeaseRecovery, HolderExitDuringDowntimeEndsLease) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  ASSERT_TRUE(fixture.claim(10, "a"));
  fixture.kill();
  fixture.observer.stop(10);
  fixture.begin();
  fixture.loop.run_posted();
  EXPECT_EQ(fixture.state("a"), LeaseState::ended);
}

TEST(LeaseRecovery, ReusedPidIsNotHolder) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  ASSERT_TRUE(fixture.claim(10, "a"));
  fixture.kill();
  fixture.observer.stop(10);
  fixture.loop.advance(seconds(1));
  fixture.observer.start(10);
  fixture.begin();
  fixture.loop.run_posted();
  EXPECT_EQ(fixture.state("a"), LeaseState::ended);
}

TEST(LeaseRecovery, EndedLeaseIsPrunedFromDiskAfterRetention) {
  LeaseFixture fixture(2);
  fixture.observer.start(10);
  fixture.observer.start(11);
  ASSERT_TRUE(fixture.claim(10, "a"));
  ASSERT_TRUE(fixture.claim(11, "goes on"));
  ASSERT_TRUE(fixture.release(10, "a"));
  fixture.loop.advance(hours(23));
  EXPECT_EQ(fixture.disk.leases.size(), 2U);
  fixture.loop.advance(hours(2));
  EXPECT_EQ(fixture.leases->find("a"), nullptr);
  EXPECT_EQ(fixture.disk.leases.size(), 1U);
}

TEST(LeaseRecovery, RebootEndsAllLeases) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  ASSERT_TRUE(fixture.claim(10, "a"));
  fixture.kill();
  fixture.begin("boot-2");
  EXPECT_EQ(fixture.leases->find("a")->end_reason, EndReason::node_reboot);
}

TEST(LeaseRecovery, RestartKeepsQueueOrder) {
  LeaseFixture fixture(1);
  for (std::uint32_t pid : {10U, 11U, 12U}) fixture.observer.start(pid);
  ASSERT_TRUE(fixture.claim(10, "a"));
  ASSERT_TRUE(fixture.claim(11, "b"));
  fixture.kill();
  fixture.begin();
  ASSERT_TRUE(fixture.claim(12, "c"));
  ASSERT_TRUE(fixture.claim(11, "b"));
  ASSERT_TRUE(fixture.release(10, "a"));
  fixture.loop.advance(seconds(1));
  EXPECT_EQ(fixture.state("b"), LeaseState::held);
  EXPECT_EQ(fixture.state("c"), LeaseState::waiting);
}

TEST(LeaseRecovery, FullDiskRefusesClaimButKeepsHeldLease) {
  LeaseFixture fixture(2);
  fixture.observer.start(10);
  fixture.observer.start(11);
  ASSERT_TRUE(fixture.claim(10, "a"));
  fixture.disk.fails = Error{Errc::unavailable, "the disk is full"};
  const auto refused = fixture.claim(11, "b");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::unavailable);
  EXPECT_NE(refused.error().message.find("the disk is full"), std::string::npos);
  fixture.loop.advance(seconds(10));
  EXPECT_FALSE(fixture.leases->notes().empty());
  EXPECT_EQ(fixture.claim(11, "b").error().code, Errc::unavailable);
  fixture.disk.fails.reset();
  fixture.loop.advance(seconds(10));
  EXPECT_EQ(fixture.state("a"), LeaseState::held);
  const auto granted = fixture.claim(11, "b");
  ASSERT_TRUE(granted);
  EXPECT_EQ(granted->state, LeaseState::held);
}

TEST(LeaseRecovery, UnidentifiedHolderCountsAsAliveAndBlocksGrants) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  ASSERT_TRUE(fixture.claim(10, "a"));
  fixture.kill();
  fixture.observer.slow = true;
  fixture.begin();
  fixture.loop.advance(seconds(5));
  EXPECT_EQ(fixture.state("a"), LeaseState::held);
  EXPECT_TRUE(fixture.leases->grant_error());
  fixture.observer.slow = false;
  fixture.loop.advance(seconds(1));
  EXPECT_FALSE(fixture.leases->grant_error());
  EXPECT_EQ(fixture.state("a"), LeaseState::held);
}

TEST(LeaseRecovery, HolderExitIsRedetectedAfterFailedCommit) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  ASSERT_TRUE(fixture.claim(10, "a"));
  fixture.disk.fails = Error{Errc::unavailable, "the disk is full"};
  fixture.observer.stop(10);
  fixture.loop.advance(seconds(10));
  EXPECT_NE(fixture.disk.leases.at("a").state, LeaseState::ended);
  fixture.disk.fails.reset();
  fixture.loop.advance(seconds(10));
  EXPECT_EQ(fixture.state("a"), LeaseState::ended);
}

TEST(LeaseRecovery, CordonSurvivesRestart) {
  LeaseFixture fixture(1);
  fixture.observer.start(1, 0);
  fixture.observer.start(10);
  fixture.leases->cordon(fixture.observer.caller(1), {"GPU-0"}, "fan rattles", [](const auto&) {});
  fixture.loop.run_posted();
  fixture.kill();
  fixture.begin();
  EXPECT_EQ(fixture.claim(10, "a")->state, LeaseState::waiting);
  EXPECT_EQ(fixture.leases->gpus().withheld_reason("GPU-0")->first, "cordoned");
  fixture.leases->uncordon(fixture.observer.caller(1), {"GPU-0"}, [](const auto&) {});
  fixture.loop.run_posted();
  EXPECT_EQ(fixture.state("a"), LeaseState::held);
}

}  // namespace
}  // namespace gpuyard::lease
