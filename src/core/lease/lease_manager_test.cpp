#include "core/lease/lease_manager.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "core/lease/lease_fixture_for_tests.h"

namespace gpuyard::lease {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

LeaseSpec detached(Duration ttl, unsigned gpus = 1) {
  LeaseSpec spec;
  spec.gpus = gpus;
  spec.binding = Binding::detached;
  spec.ttl = ttl;
  return spec;
}

LeaseSpec immediate_spec() {
  LeaseSpec spec;
  spec.wait_timeout = Duration::zero();
  return spec;
}

TEST(LeaseManager, ReleasedGpuGoesToNextWaitingClaim) {
  RecordProperty("contract", "D2");
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  fixture.observer.start(11);
  const auto first = fixture.claim(10, "a");
  ASSERT_TRUE(first);
  EXPECT_EQ(first->state, LeaseState::held);
  EXPECT_EQ(first->gpus, std::vector<DeviceId>{"GPU-0"});
  const auto second = fixture.claim(11, "b");
  ASSERT_TRUE(second);
  EXPECT_EQ(second->state, LeaseState::waiting);
  EXPECT_EQ(fixture.leases->waiting_claim_count(), 1U);
  ASSERT_TRUE(fixture.release(10, "a"));
  fixture.loop.advance(seconds(1));
  EXPECT_EQ(fixture.state("a"), LeaseState::ended);
  EXPECT_EQ(fixture.state("b"), LeaseState::held);
  EXPECT_GT(fixture.leases->find("b")->fence, first->fence);
}

TEST(LeaseManager, ZeroWaitClaimEndsAsNoneFree) {
  RecordProperty("contract", "D3");
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  ASSERT_TRUE(fixture.claim(10, "a"));
  const auto none = fixture.claim(10, "b", immediate_spec());
  ASSERT_TRUE(none);
  EXPECT_EQ(none->end_reason, EndReason::none_free);
  EXPECT_EQ(fixture.leases->waiting_claim_count(), 0U);
}

TEST(LeaseManager, RepeatedCallIsNoSecondClaim) {
  LeaseFixture fixture(2);
  fixture.observer.start(10);
  const auto once = fixture.claim(10, "a");
  const auto again = fixture.claim(10, "a");
  ASSERT_TRUE(again);
  EXPECT_EQ(once->fence, again->fence);
  EXPECT_EQ(fixture.leases->leases().size(), 1U);
}

TEST(LeaseManager, ReusedIdWithOtherSpecOrUserConflicts) {
  LeaseFixture fixture(2);
  fixture.observer.start(10);
  fixture.observer.start(11, 2000);
  ASSERT_TRUE(fixture.claim(10, "a"));
  LeaseSpec other;
  other.gpus = 2;
  EXPECT_EQ(fixture.claim(10, "a", other).error().code, Errc::conflict);
  EXPECT_EQ(fixture.claim(11, "a").error().code, Errc::conflict);
}

TEST(LeaseManager, UnsatisfiableClaimIsInvalid) {
  LeaseFixture fixture(2);
  fixture.observer.start(10);
  LeaseSpec spec;
  spec.gpus = 3;
  const auto refused = fixture.claim(10, "a", spec);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::invalid);
  spec.gpus = 1;
  spec.model = "L40S";
  EXPECT_EQ(fixture.claim(10, "b", spec).error().code, Errc::invalid);
}

TEST(LeaseManager, HolderExitEndsLease) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  ASSERT_TRUE(fixture.claim(10, "a"));
  fixture.observer.stop(10);
  fixture.loop.run_posted();
  EXPECT_EQ(fixture.state("a"), LeaseState::draining) << "nothing is observed before the answer";
  fixture.loop.advance(LeaseManager::kFirstDrainPollDelay);
  EXPECT_EQ(fixture.state("a"), LeaseState::ended);
  EXPECT_EQ(fixture.leases->find("a")->end_reason, EndReason::exited);
}

TEST(LeaseManager, LeasesReleasedTogetherShareOneObservation) {
  LeaseFixture fixture(3);
  for (const std::uint32_t pid : {10U, 11U, 12U}) fixture.observer.start(pid);
  ASSERT_TRUE(fixture.claim(10, "a"));
  ASSERT_TRUE(fixture.claim(11, "b"));
  ASSERT_TRUE(fixture.claim(12, "c"));
  const std::size_t before = fixture.observer.observation_count;
  for (const std::uint32_t pid : {10U, 11U, 12U}) {
    fixture.observer.stop(pid);
    fixture.loop.run_posted();
    fixture.loop.advance(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(fixture.observer.observation_count, before);
  fixture.loop.advance(
      LeaseManager::kFirstDrainPollDelay);  // of the first: later ones delay nothing
  EXPECT_EQ(fixture.observer.observation_count, before + 1);
  for (const char* lease : {"a", "b", "c"}) EXPECT_EQ(fixture.state(lease), LeaseState::ended);
}

TEST(LeaseManager, LeftoverProcessKeepsLeaseDraining) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  fixture.observer.start(11);
  ASSERT_TRUE(fixture.claim(10, "a"));
  ASSERT_TRUE(fixture.claim(11, "b"));
  fixture.observer.start(12);  // a leftover of the holder
  fixture.observer.running.at(12).lease = "a";
  fixture.observer.running.at(12).gpus = {"GPU-0"};
  fixture.observer.stop(10);
  fixture.loop.advance(hours(1));
  EXPECT_EQ(fixture.state("a"), LeaseState::draining);
  EXPECT_NE(fixture.leases->find("a")->detail.find("12"), std::string::npos);
  // Keeps the waiting claim from being cancelled.
  const auto there = fixture.leases->mark_present("b", PresenceKind::poll);
  EXPECT_FALSE(fixture.leases->notes().empty());
  fixture.observer.stop(12);
  fixture.loop.advance(seconds(2));
  EXPECT_EQ(fixture.state("a"), LeaseState::ended);
}

TEST(LeaseManager, UnreadableProcessListKeepsLeaseDraining) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  ASSERT_TRUE(fixture.claim(10, "a"));
  fixture.observer.unreadable.insert("GPU-0");
  ASSERT_TRUE(fixture.release(10, "a"));
  fixture.loop.advance(hours(1));
  EXPECT_EQ(fixture.state("a"), LeaseState::draining);
  fixture.observer.unreadable.clear();
  fixture.loop.advance(seconds(2));
  EXPECT_EQ(fixture.state("a"), LeaseState::ended);
}

TEST(LeaseManager, LeftoverMemoryKeepsLeaseDraining) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  fixture.leases->on_processes();
  fixture.loop.run_posted();
  ASSERT_TRUE(fixture.claim(10, "a"));
  fixture.observer.used_bytes = std::int64_t{4} << 30;
  ASSERT_TRUE(fixture.release(10, "a"));
  fixture.loop.advance(seconds(10));
  EXPECT_EQ(fixture.state("a"), LeaseState::draining);
  fixture.observer.used_bytes = 0;
  fixture.loop.advance(seconds(2));
  EXPECT_EQ(fixture.state("a"), LeaseState::ended);
}

TEST(LeaseManager, ForcedEndOfDrainRequiresAdministrator) {
  LeaseFixture fixture(1);
  fixture.observer.start(1, 0);
  fixture.observer.start(10);
  ASSERT_TRUE(fixture.claim(10, "a"));
  fixture.observer.unreadable.insert("GPU-0");
  ASSERT_TRUE(fixture.release(10, "a"));
  ReleaseOptions force{{}, true, "the GPU was replaced"};
  EXPECT_EQ(fixture.release(10, "a", force).error().code, Errc::denied);
  const auto ended = fixture.release(1, "a", force);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->state, LeaseState::ended);
  EXPECT_EQ(ended->end_reason, EndReason::forced);
}

TEST(LeaseManager, DetachedLeaseExpiresWithoutRenewal) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  ASSERT_TRUE(fixture.claim(10, "a", detached(seconds(60))));
  fixture.loop.advance(seconds(50));
  const auto renewed = fixture.result_of([&](const LeaseManager::OnLease& answer) {
    fixture.leases->renew(fixture.observer.caller(10), "a", seconds(60), std::nullopt, answer);
  });
  ASSERT_TRUE(renewed);
  fixture.loop.advance(seconds(50));
  EXPECT_EQ(fixture.state("a"), LeaseState::held);
  fixture.loop.advance(seconds(15));
  EXPECT_EQ(fixture.state("a"), LeaseState::ended);
  EXPECT_EQ(fixture.leases->find("a")->end_reason, EndReason::expired);
}

// Renewals have a rate limit of their own, which exempts those that change nothing and those of a
// lease that would end soon.
TEST(LeaseManager, ExhaustedClaimRateStillAllowsDueRenewal) {
  LeasePolicy policy;
  policy.quotas.claims_a_minute = 2;
  LeaseFixture fixture(1, policy);
  fixture.observer.start(10);
  const auto renew = [&](Duration ttl) {
    return fixture.result_of([&](const LeaseManager::OnLease& answer) {
      fixture.leases->renew(fixture.observer.caller(10), "a", ttl, std::nullopt, answer);
    });
  };
  ASSERT_TRUE(fixture.claim(10, "a", detached(seconds(60))));
  ASSERT_TRUE(fixture.claim(10, "b", detached(seconds(60))));
  EXPECT_EQ(fixture.claim(10, "c", detached(seconds(60))).error().code, Errc::busy);
  EXPECT_TRUE(renew(seconds(90)));
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(renew(seconds(90))) << "says nothing new";
  EXPECT_TRUE(renew(seconds(60)));
  EXPECT_EQ(renew(seconds(90)).error().code, Errc::busy);
  fixture.loop.advance(seconds(20));
  EXPECT_TRUE(renew(seconds(90))) << "it would end soon";
}

// One user may have a quarter of the queue, but only a few slots of its last eighth; some slots
// beyond the limit are for administrators alone.
TEST(LeaseManager, NearlyFullQueueLimitsUsersAndAdmitsAdministrators) {
  LeasePolicy policy;
  policy.max_waiting_claims = 40;
  LeaseFixture fixture(1, policy);
  std::uint32_t number = 0;
  // Returns how many claims of a user are accepted, one after the other.
  const auto taken = [&](std::uint32_t uid, bool admin = false) {
    fixture.observer.start(uid, uid);
    Caller caller = fixture.observer.caller(uid);
    caller.admin = admin;
    std::size_t count = 0;
    for (Errc error_code = Errc::timed_out; error_code == Errc::timed_out; ++count) {
      const auto answer = fixture.result_of([&](const LeaseManager::OnLease& on_lease) {
        fixture.leases->claim(caller, std::to_string(++number), detached(hours(1)), on_lease);
      });
      error_code = answer ? Errc::timed_out : answer.error().code;
    }
    return count - 1;
  };
  EXPECT_EQ(taken(1000), 1U + 10U) << "one is held; a quarter of all may wait";
  EXPECT_EQ(taken(2000), 10U);
  EXPECT_EQ(taken(3000), 10U);
  EXPECT_EQ(taken(4000), 8U) << "of the last eighth";
  EXPECT_EQ(taken(5000), 2U) << "all there are";
  EXPECT_EQ(taken(6000), 0U);
  EXPECT_EQ(taken(0, true), limits::kReservedSlots);
}

TEST(LeaseManager, AStaleFenceIsRefused) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  const auto lease = fixture.claim(10, "a");
  ASSERT_TRUE(lease);
  ReleaseOptions stale;
  stale.fence = lease->fence + 1;
  EXPECT_EQ(fixture.release(10, "a", stale).error().code, Errc::conflict);
  EXPECT_TRUE(fixture.leases->check_holds_gpu("a", lease->fence, "GPU-0"));
  EXPECT_FALSE(fixture.leases->check_holds_gpu("a", lease->fence - 1, "GPU-0"));
}

TEST(LeaseManager, AbsentClientEndsWaitingClaimAsUnreachable) {
  RecordProperty("contract", "D6");
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  fixture.observer.start(11);
  ASSERT_TRUE(fixture.claim(10, "a"));
  ASSERT_TRUE(fixture.claim(11, "b"));
  auto there = fixture.leases->mark_present("b", PresenceKind::poll);
  fixture.loop.advance(seconds(100));
  EXPECT_EQ(fixture.state("b"), LeaseState::waiting);
  there.reset();
  fixture.loop.advance(seconds(29));
  EXPECT_EQ(fixture.state("b"), LeaseState::waiting);
  fixture.loop.advance(seconds(2));
  EXPECT_EQ(fixture.leases->find("b")->end_reason, EndReason::unreachable);
  EXPECT_EQ(fixture.leases->find("b")->detail, "its client disconnected");
  EXPECT_EQ(fixture.leases->waiting_claim_count(), 0U);
}

TEST(LeaseManager, UnacknowledgedGrantIsRevoked) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  fixture.observer.start(11);
  ASSERT_TRUE(fixture.claim(10, "a"));
  ASSERT_TRUE(fixture.claim(11, "b", detached(hours(8))));
  fixture.loop.advance(seconds(1));
  ASSERT_TRUE(fixture.release(10, "a"));
  fixture.loop.advance(seconds(10));
  EXPECT_EQ(fixture.state("b"), LeaseState::held);
  fixture.loop.advance(seconds(25));
  EXPECT_EQ(fixture.leases->find("b")->end_reason, EndReason::unreachable);
}

TEST(LeaseManager, RepeatedClaimAcknowledgesGrant) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  fixture.observer.start(11);
  ASSERT_TRUE(fixture.claim(10, "a"));
  ASSERT_TRUE(fixture.claim(11, "b", detached(hours(8))));
  fixture.loop.advance(seconds(1));
  ASSERT_TRUE(fixture.release(10, "a"));
  fixture.loop.advance(seconds(10));
  ASSERT_TRUE(fixture.claim(11, "b", detached(hours(8))));
  fixture.loop.advance(hours(1));
  EXPECT_EQ(fixture.state("b"), LeaseState::held);
}

TEST(LeaseManager, AddMemberAcceptsOnlyHolderChildren) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  fixture.observer.start(12);
  ASSERT_TRUE(fixture.claim(10, "a"));
  const auto count = [&] {
    return fixture.result_of([&](const LeaseManager::OnLease& answer) {
      fixture.leases->add_member(fixture.observer.caller(10), "a", 12, std::nullopt, answer);
    });
  };
  EXPECT_EQ(count().error().code, Errc::denied);
  fixture.observer.start(13);
  fixture.observer.running.at(13).identity.parent = 10;
  const auto counted = fixture.result_of([&](const LeaseManager::OnLease& answer) {
    fixture.leases->add_member(fixture.observer.caller(10), "a", 13, std::nullopt, answer);
  });
  ASSERT_TRUE(counted);
  EXPECT_EQ(counted->processes.size(), 2U);
}

// The lease ends although the process of its holder still runs.
TEST(LeaseManager, ClosedStreamEndsLeaseAfterGracePeriod) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  ASSERT_TRUE(fixture.claim(10, "a"));
  auto stream = fixture.leases->mark_present("a", PresenceKind::stream);
  stream.reset();
  fixture.loop.advance(seconds(3));
  EXPECT_EQ(fixture.state("a"), LeaseState::held);
  fixture.loop.advance(seconds(5));
  EXPECT_EQ(fixture.state("a"), LeaseState::ended);
}

TEST(LeaseManager, ReleaseByAnotherUserIsDenied) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  fixture.observer.start(11, 2000);
  ASSERT_TRUE(fixture.claim(10, "a"));
  EXPECT_EQ(fixture.release(11, "a").error().code, Errc::denied);
  EXPECT_EQ(fixture.state("a"), LeaseState::held);
}

// A lease of process 10 that was released while process 12 still runs.
class DrainingLease : public ::testing::Test {
 protected:
  DrainingLease() {
    world_.observer.start(10);
    world_.observer.start(11, 0);
    world_.observer.start(12);
    world_.observer.running.at(12).lease = "a";
    LeaseSpec spec;
    spec.binding = Binding::run;
    EXPECT_TRUE(world_.claim(10, "a", spec));
  }
  void release() { ASSERT_TRUE(world_.release(10, "a")); }

  LeaseFixture world_{1};
};

TEST_F(DrainingLease, SignalReachesRemainingProcess) {
  release();
  const auto sent = world_.signal(10, "a", 15);
  ASSERT_TRUE(sent);
  EXPECT_TRUE(sent->checked && sent->failures.empty());
  EXPECT_EQ(sent->lease.state, LeaseState::draining);
  const std::vector<std::pair<std::uint32_t, int>> expected{{12, 15}};
  EXPECT_EQ(world_.observer.signals, expected);
}

TEST_F(DrainingLease, SignalThatIsRefusedNamesTheProcess) {
  release();
  world_.observer.may_signal = false;
  const auto sent = world_.signal(11, "a", 15);
  ASSERT_TRUE(sent);
  ASSERT_EQ(sent->failures.size(), 1U);
  EXPECT_EQ(sent->failures[0].process, world_.observer.running.at(12).identity.key);
  EXPECT_EQ(sent->failures[0].error.code, Errc::denied);
}

TEST_F(DrainingLease, SignalOfItsUserSparesOtherUsers) {
  world_.observer.start(13, 2000);
  world_.observer.running.at(13).lease = "a";
  release();
  EXPECT_EQ(world_.signal(10, "a", 15)->failures.size(), 1U);
  EXPECT_EQ(world_.signal(11, "a", 9)->failures.size(), 0U) << "an administrator's";
}

TEST_F(DrainingLease, SignalWithoutObservationIsAnsweredUnchecked) {
  release();
  world_.observer.blind = true;
  world_.loop.advance(LeaseManager::kDrainPollInterval);  // this observation is not answered
  std::optional<Result<SignalResult>> sent;
  world_.leases->signal(world_.observer.caller(10), "a", 15,
                        [&](Result<SignalResult> result) { sent = std::move(result); });
  world_.loop.advance(LeaseManager::kSignalTimeout);
  ASSERT_TRUE(sent && *sent);
  EXPECT_FALSE((*sent)->checked);
}

TEST_F(DrainingLease, SignalsAreDroppedWithTheLease) {
  release();
  world_.observer.stop(12);
  const auto sent = world_.signal(10, "a", 15);
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->lease.state, LeaseState::ended);
  EXPECT_TRUE(sent->checked && sent->failures.empty());
  EXPECT_TRUE(world_.signal(10, "a", 15)) << "it has ended before";
}

TEST_F(DrainingLease, SignalsOfOthersAreRefused) {
  release();
  world_.observer.start(14, 2000);
  EXPECT_EQ(world_.signal(14, "a", 15).error().code, Errc::denied);
  EXPECT_EQ(world_.signal(10, "b", 15).error().code, Errc::not_found);
  EXPECT_TRUE(world_.observer.signals.empty());
}

TEST_F(DrainingLease, DuplicatePendingSignalIsSentOnce) {
  release();
  int answers = 0;
  for (const int number : {15, 15, 9}) {
    world_.leases->signal(world_.observer.caller(10), "a", number,
                          [&](const Result<SignalResult>& result) { answers += result ? 1 : 0; });
  }
  world_.loop.run_posted();
  EXPECT_EQ(answers, 3);
  const std::vector<std::pair<std::uint32_t, int>> expected{{12, 15}, {12, 9}};
  EXPECT_EQ(world_.observer.signals, expected) << "the same signal is sent once";
}

TEST_F(DrainingLease, HeldLeaseGetsNoSignal) {
  const auto sent = world_.signal(10, "a", 15);
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->lease.state, LeaseState::held);
  EXPECT_TRUE(world_.observer.signals.empty());
}

TEST(LeaseManager, DrainingLeaseOfAContainerEndsWithIt) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  fixture.observer.start(12, 2000);
  fixture.observer.running.at(12).lease = "a";
  fixture.observer.running.at(12).by_container = true;
  LeaseSpec spec;
  spec.binding = Binding::run;
  ASSERT_TRUE(fixture.claim(10, "a", spec));
  fixture.leases->on_processes();
  fixture.loop.run_posted();
  ASSERT_TRUE(fixture.release(10, "a"));
  fixture.loop.run_posted();
  EXPECT_EQ(fixture.state("a"), LeaseState::draining);
  fixture.observer.running.at(12).lease = "";  // the container's first process has exited
  fixture.loop.advance(std::chrono::seconds(1));
  EXPECT_EQ(fixture.state("a"), LeaseState::ended);
}

// The claim and its grant are one transaction, so the reply also acknowledges the grant.
TEST(LeaseManager, GrantDuringSlowCommitIsReturnedInReply) {
  LeaseFixture fixture(2);
  fixture.observer.start(10);
  const auto first = fixture.claim(10, "a");
  ASSERT_TRUE(first);
  fixture.disk.slow = true;
  const DeviceId other = first->gpus == std::vector<DeviceId>{"GPU-0"} ? "GPU-1" : "GPU-0";
  fixture.leases->cordon({0, true}, {other}, "fan", [](const Result<void>&) {});
  fixture.loop.run_posted();
  std::optional<Result<Lease>> result;
  fixture.leases->claim({1000}, "b", detached(hours(8)),
                        [&](Result<Lease> lease) { result = std::move(lease); });
  fixture.observer.stop(10);
  fixture.loop.advance(seconds(2));
  ASSERT_FALSE(result) << "nothing is told before it is on the disk";
  fixture.disk.finish();
  fixture.loop.advance(seconds(1));
  ASSERT_TRUE(result && *result);
  EXPECT_EQ((*result)->state, LeaseState::held) << "asked and granted are one entry";
  fixture.loop.advance(hours(1));
  EXPECT_EQ(fixture.state("b"), LeaseState::held);
}

TEST(LeaseManager, ReplyToExitedClientDoesNotAcknowledgeGrant) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  Caller caller = fixture.observer.caller(10);
  caller.process = fixture.observer.running.at(10).identity.fd;
  fixture.leases->claim(caller, "a", detached(hours(8)), [](const Result<Lease>&) {});
  ::eventfd_write(caller.process->get(), 1);
  fixture.loop.run_posted();
  EXPECT_EQ(fixture.state("a"), LeaseState::held);
  fixture.loop.advance(LeaseManager::kReconnectTimeout + seconds(10));
  EXPECT_EQ(fixture.state("a"), LeaseState::ended);
}

TEST(LeaseManager, ImmediateGrantCountsAsAcknowledged) {
  LeaseFixture fixture(2);
  fixture.observer.start(10);
  ASSERT_TRUE(fixture.claim(10, "a", detached(hours(8))));
  LeaseSpec now_or_never = detached(hours(8));
  now_or_never.wait_timeout = Duration::zero();
  ASSERT_TRUE(fixture.claim(10, "b", now_or_never));
  fixture.loop.advance(hours(1));
  EXPECT_EQ(fixture.state("a"), LeaseState::held);
  EXPECT_EQ(fixture.state("b"), LeaseState::held);
}

}  // namespace
}  // namespace gpuyard::lease
