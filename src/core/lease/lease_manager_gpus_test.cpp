// Which GPUs are leased, and which unleased processes use one.
#include "core/lease/lease_manager.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "core/lease/lease_fixture_for_tests.h"

namespace gpuyard::lease {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(LeaseManager, ForcedEndTurnsLeftoversIntoUnleasedProcesses) {
  LeaseFixture world(1);
  world.ground.start(1, 0);
  for (std::uint32_t pid : {10U, 11U, 12U}) world.ground.start(pid);
  ASSERT_TRUE(world.claim(10, "a"));
  ASSERT_TRUE(world.claim(11, "b"));
  world.ground.running.at(12).lease = "a";
  world.ground.running.at(12).gpus = {"GPU-0"};
  world.ground.stop(10);
  world.loop.advance(seconds(1));
  ASSERT_EQ(world.state("a"), LeaseState::draining);
  ASSERT_TRUE(world.release(1, "a", {{}, true, "it hangs"}));
  EXPECT_EQ(world.leases->find("a")->detail, "it hangs");
  EXPECT_EQ(world.state("b"), LeaseState::waiting);
  EXPECT_EQ(world.leases->gpus().withheld_reason("GPU-0")->first, "squatted");
}

TEST(LeaseManager, UnleasedProcessWithholdsGpu) {
  LeaseFixture world(1);
  world.ground.start(10);
  world.ground.start(66, 2000);
  world.ground.running.at(66).gpus = {"GPU-0"};
  world.leases->on_processes();
  world.loop.run_posted();
  const auto waits = world.claim(10, "a");
  ASSERT_TRUE(waits);
  EXPECT_EQ(waits->state, LeaseState::waiting);
  ASSERT_EQ(world.leases->queue_entries(10).size(), 1U);
  EXPECT_EQ(world.leases->queue_entries(10).front().queue_position.reason, WaitReason::squatted);
  EXPECT_EQ(world.leases->gpus().withheld_reason("GPU-0")->first, "squatted");
  world.ground.stop(66);
  world.leases->on_processes();
  world.loop.run_posted();
  EXPECT_EQ(world.state("a"), LeaseState::held);
}

TEST(LeaseManager, UnattributedMemoryUseWithholdsGpu) {
  LeaseFixture world(1);
  world.ground.start(10);
  world.fleet[0].free_bytes = std::int64_t{20} << 30;
  world.leases->on_gpus(world.fleet);
  EXPECT_EQ(world.claim(10, "a")->state, LeaseState::waiting);
  EXPECT_EQ(world.leases->gpus().withheld_reason("GPU-0")->first, "in_use");
  world.fleet[0].free_bytes = world.fleet[0].total_bytes;
  world.leases->on_gpus(world.fleet);
  world.loop.run_posted();
  EXPECT_EQ(world.state("a"), LeaseState::held);
}

// Gives the GPU one reading of its activity a second.
void read_activity(LeaseFixture& world, bool busy, int readings) {
  for (int i = 0; i < readings; ++i) {
    world.loop.advance(seconds(1));
    world.fleet[0].activity = Activity{world.loop.now(), busy, "97 % utilisation"};
    world.leases->on_gpus(world.fleet);
    world.loop.run_posted();
  }
}

TEST(LeaseManager, UnattributedActivityWithholdsGpu) {
  LeaseFixture world(1);
  world.ground.start(10);
  read_activity(world, false, 1);
  read_activity(world, true, 3);
  EXPECT_EQ(world.claim(10, "a")->state, LeaseState::waiting);
  EXPECT_EQ(
      world.leases->gpus().withheld_reason("GPU-0"),
      WithheldReason("in_use",
                     "busy (97 % utilisation), although no lease and no listed process uses it"));
  EXPECT_EQ(world.leases->queue_entries(10).front().queue_position.reason, WaitReason::squatted);
  read_activity(world, false, 10);
  EXPECT_EQ(world.state("a"), LeaseState::held);
}

TEST(LeaseManager, ActivityUnderALeaseIsNotHiddenUse) {
  LeaseFixture world(1);
  world.ground.start(10);
  ASSERT_EQ(world.claim(10, "a")->state, LeaseState::held);
  read_activity(world, true, 5);
  ASSERT_TRUE(world.release(10, "a"));
  read_activity(world, true, 2);
  world.ground.start(11);
  EXPECT_EQ(world.claim(11, "b")->state, LeaseState::held) << "a reading may lag behind its end";
}

TEST(LeaseManager, UnknownGpuIsGrantedOnceKnownAndObserved) {
  LeaseFixture world(1);
  world.ground.start(10);
  world.fleet[0].withheld = std::string(kUnknown);
  world.leases->on_gpus(world.fleet);
  EXPECT_EQ(world.claim(10, "a")->state, LeaseState::waiting);
  world.fleet[0].withheld.clear();
  world.leases->on_gpus(world.fleet);
  world.loop.run_posted();
  EXPECT_EQ(world.state("a"), LeaseState::held);
}

TEST(LeaseManager, NewlyKnownGpuIsWithheldForUnleasedProcess) {
  LeaseFixture world(1);
  world.ground.start(10);
  world.fleet[0].withheld = std::string(kUnknown);
  world.leases->on_gpus(world.fleet);
  EXPECT_EQ(world.claim(10, "a")->state, LeaseState::waiting);
  world.ground.start(66);
  world.ground.running.at(66).gpus = {"GPU-0"};
  world.fleet[0].withheld.clear();
  world.leases->on_gpus(world.fleet);
  world.loop.run_posted();
  EXPECT_EQ(world.state("a"), LeaseState::waiting);
  EXPECT_EQ(world.leases->gpus().withheld_reason("GPU-0")->first, "squatted");
}

std::optional<Error> override_withholding(LeaseFixture& world) {
  std::optional<Result<void>> answer;
  world.leases->override_withholding(world.ground.caller(1), {"GPU-0"}, "its sensor is broken",
                                     [&](const Result<void>& done) { answer = done; });
  world.loop.run_posted();
  if (!answer) return Error{Errc::timed_out, "no answer"};
  return *answer ? std::nullopt : std::optional(answer->error());
}

TEST(LeaseManager, AnOverriddenUnknownGpuIsLeasedUntilItsReasonChanges) {
  LeaseFixture world(1);
  world.ground.start(1, 0);
  world.ground.start(10);
  world.fleet[0].withheld = std::string(kUnknown);
  world.leases->on_gpus(world.fleet);
  ASSERT_TRUE(world.claim(10, "a"));
  ASSERT_FALSE(override_withholding(world));
  EXPECT_EQ(world.state("a"), LeaseState::held);
  ASSERT_TRUE(world.release(10, "a"));
  world.fleet[0].withheld.clear();
  world.leases->on_gpus(world.fleet);
  world.fleet[0].withheld = std::string(kUnknown);
  world.leases->on_gpus(world.fleet);
  EXPECT_EQ(world.leases->gpus().withheld_reason("GPU-0")->first, kUnknown)
      << "it was known between";
}

TEST(LeaseManager, AnOverriddenBusyGpuIsLeasedUntilItIsIdle) {
  LeaseFixture world(1);
  world.ground.start(1, 0);
  world.ground.start(10);
  read_activity(world, true, 3);
  ASSERT_TRUE(world.claim(10, "a"));
  ASSERT_EQ(world.state("a"), LeaseState::waiting);
  ASSERT_FALSE(override_withholding(world));
  EXPECT_EQ(world.state("a"), LeaseState::held);
  ASSERT_TRUE(world.release(10, "a"));
  read_activity(world, false, 11);
  read_activity(world, true, 3);
  EXPECT_EQ(world.leases->gpus().withheld_reason("GPU-0")->first, kInUse);
}

TEST(LeaseManager, AnOverrideOutlastsTheLeasesThatItAllowed) {
  LeaseFixture world(1);
  world.ground.start(1, 0);
  world.ground.start(10);
  read_activity(world, true, 3);
  ASSERT_FALSE(override_withholding(world));
  ASSERT_EQ(world.claim(10, "a")->state, LeaseState::held);
  read_activity(world, true, 2);
  ASSERT_TRUE(world.release(10, "a"));
  read_activity(world, true, 5);
  EXPECT_FALSE(world.leases->gpus().withheld_reason("GPU-0")) << "its counter is still stuck";
}

TEST(LeaseManager, BothReasonsOfAGpuCanBeOverridden) {
  LeaseFixture world(1);
  world.ground.start(1, 0);
  read_activity(world, true, 3);
  world.fleet[0].withheld = std::string(kUnknown);
  world.leases->on_gpus(world.fleet);
  ASSERT_FALSE(override_withholding(world));
  EXPECT_EQ(world.leases->gpus().withheld_reason("GPU-0")->first, kInUse);
  ASSERT_FALSE(override_withholding(world));
  EXPECT_FALSE(world.leases->gpus().withheld_reason("GPU-0"));
}

TEST(LeaseManager, AStallDoesNotForgetHiddenWork) {
  LeaseFixture world(1);
  world.ground.start(10);
  read_activity(world, true, 3);
  world.fleet[0].activity.reset();
  world.fleet[0].withheld = "unresponsive";
  world.leases->on_gpus(world.fleet);
  world.fleet[0].withheld.clear();
  read_activity(world, true, 1);
  EXPECT_EQ(world.claim(10, "a")->state, LeaseState::waiting);
}

TEST(LeaseManager, AKnownReasonCannotBeOverridden) {
  LeaseFixture world(1);
  world.ground.start(1, 0);
  world.fleet[0].withheld = "unhealthy";
  world.leases->on_gpus(world.fleet);
  EXPECT_EQ(override_withholding(world)->code, Errc::conflict);
}

TEST(LeaseManager, FreeMemoryThatIsNotKnownIsNotEnough) {
  LeaseFixture world(1);
  world.ground.start(10);
  world.fleet[0].free_bytes.reset();
  world.leases->on_gpus(world.fleet);
  LeaseSpec large;
  large.min_free_bytes = std::int64_t{10} << 30;
  EXPECT_EQ(world.claim(10, "a", large)->state, LeaseState::waiting);
  EXPECT_EQ(world.leases->queue_entries(10).front().queue_position.reason, WaitReason::memory);
  world.ground.start(11);
  EXPECT_EQ(world.claim(11, "b")->state, LeaseState::held) << "it asks for no memory";
}

TEST(LeaseManager, MemoryRequestWithoutMemoryReportingIsInvalid) {
  LeaseFixture world(1);
  world.ground.start(10);
  world.fleet[0].total_bytes.reset();
  world.fleet[0].free_bytes.reset();
  world.fleet[0].reports_memory = false;
  world.leases->on_gpus(world.fleet);
  LeaseSpec large;
  large.min_free_bytes = 1;
  EXPECT_EQ(world.claim(10, "a", large).error().code, Errc::invalid);
  EXPECT_EQ(world.claim(10, "b")->state, LeaseState::held);
}

TEST(LeaseManager, AGpuThatDrawsAScreenIsHandedOut) {
  LeaseFixture world(1);
  world.ground.start(10);
  world.fleet[0].free_bytes = std::int64_t{70} << 30;
  world.fleet[0].graphics_bytes = std::int64_t{9} << 30;
  world.leases->on_gpus(world.fleet);
  EXPECT_EQ(world.claim(10, "a")->state, LeaseState::held);
}

TEST(LeaseManager, NewGpuIsObservedBeforeFirstGrant) {
  LeaseFixture world(1);
  world.ground.start(10);
  world.ground.start(66);
  world.ground.running.at(66).gpus = {"GPU-1"};
  LeaseSpec both;
  both.gpus = 2;
  both.binding = Binding::detached;  // a detached claim is decided at once
  both.ttl = seconds(60);
  PoolGpu later = world.fleet[0];
  later.info.id = later.info.uuid = "GPU-1";
  later.info.index = 1;
  world.fleet.push_back(later);
  world.leases->on_gpus(world.fleet);
  EXPECT_EQ(world.leases->gpus().withheld_reason("GPU-1")->first, "new");
  EXPECT_EQ(world.claim(10, "a", both)->state, LeaseState::waiting);
  EXPECT_EQ(world.leases->gpus().withheld_reason("GPU-1")->first, "squatted");
  world.ground.stop(66);
  world.leases->on_processes();
  world.loop.run_posted();
  EXPECT_EQ(world.state("a"), LeaseState::held);
}

TEST(LeaseManager, UnleasedProcessIsAdoptableBySameUserOnly) {
  LeaseFixture world(2);
  world.ground.start(10, 2000);
  world.ground.start(66);
  world.ground.running.at(66).gpus = {"GPU-1"};
  const auto adopt = [&](std::uint32_t caller) {
    return world.heard([&](const LeaseManager::OnLease& answer) {
      world.leases->adopt(world.ground.caller(caller), 66, "", answer);
    });
  };
  EXPECT_EQ(adopt(10).error().code, Errc::denied);
  const auto lease = adopt(66);
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->gpus, std::vector<DeviceId>{"GPU-1"});
  EXPECT_EQ(lease->state, LeaseState::held);
  EXPECT_EQ(adopt(66).error().code, Errc::conflict);
  world.ground.stop(66);
  world.loop.advance(seconds(1));
  EXPECT_EQ(world.state(lease->id), LeaseState::ended);
}

TEST(LeaseManager, FailedDrainCheckKeepsLeaseDraining) {
  LeaseFixture world(1);
  world.ground.start(10);
  world.ground.start(11, 2000);
  std::optional<std::string> left = "the power_limit of GPU-0 has not been restored yet";
  world.leases->set_drain_check([&](const Lease&) { return left; });
  ASSERT_EQ(world.claim(10, "a")->state, LeaseState::held);
  ASSERT_EQ(world.claim(11, "b")->state, LeaseState::waiting);
  ASSERT_TRUE(world.release(10, "a"));
  world.ground.stop(10);
  world.loop.advance(seconds(5));
  EXPECT_EQ(world.state("a"), LeaseState::draining);
  EXPECT_EQ(world.state("b"), LeaseState::waiting);
  left.reset();
  world.loop.advance(seconds(1));
  EXPECT_EQ(world.state("a"), LeaseState::ended);
  EXPECT_EQ(world.state("b"), LeaseState::held);
}

TEST(LeaseManager, SubordinateUidsShareOwnerQuota) {
  LeasePolicy policy;
  policy.fairness.max_gpus_per_owner = 1;
  policy.quota_owner = [](std::uint32_t uid) { return uid >= 100'000 ? 1000U : uid; };
  LeaseFixture world(2, policy);
  world.ground.start(10, 1000);
  world.ground.start(11, 100'001);
  world.ground.start(12, 2000);
  EXPECT_EQ(world.claim(10, "a")->state, LeaseState::held);
  EXPECT_EQ(world.claim(11, "b")->state, LeaseState::waiting);
  EXPECT_EQ(world.claim(12, "c")->state, LeaseState::held);
  EXPECT_EQ(world.leases->queue_entries(1).at(0).queue_position.reason, WaitReason::quota);
  EXPECT_EQ(world.leases->find("b")->uid, 100'001U) << "he is who he is, and counts with the other";
}

class Adoption : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kUnleasedPid = 66;

  Adoption() { world.ground.start(10, 2000); }
  void squat(const DeviceId& gpu) {
    world.ground.start(kUnleasedPid);
    world.ground.running.at(kUnleasedPid).gpus = {gpu};
    world.leases->on_processes();
    world.loop.run_posted();
  }
  Result<Lease> adopt() {
    return world.heard([&](const LeaseManager::OnLease& answer) {
      world.leases->adopt(world.ground.caller(kUnleasedPid), kUnleasedPid, "", answer);
    });
  }

  LeaseFixture world{2};
};

TEST_F(Adoption, TakesNoGpuThatIsNotHandedOut) {
  squat("GPU-1");
  world.leases->cordon({0, true}, {"GPU-1"}, "broken fan", [](const Result<void>&) {});
  const auto cordoned = adopt();
  ASSERT_FALSE(cordoned);
  EXPECT_NE(cordoned.error().message.find("broken fan"), std::string::npos);
  world.leases->uncordon({0, true}, {"GPU-1"}, [](const Result<void>&) {});
  world.fleet[1].withheld = "quarantined";
  world.fleet[1].text = "alert 7 stopped the line";
  world.leases->on_gpus(world.fleet);
  const auto quarantined = adopt();
  ASSERT_FALSE(quarantined);
  EXPECT_NE(quarantined.error().message.find("alert 7"), std::string::npos);
}

TEST_F(Adoption, ProcessStartedAfterWaitingClaimIsRefused) {
  world.ground.start(11, 2000);
  LeaseSpec both;
  both.gpus = 2;
  ASSERT_EQ(world.claim(10, "a", both)->state, LeaseState::held);
  ASSERT_EQ(world.claim(11, "b", both)->state, LeaseState::waiting);
  world.loop.advance(seconds(1));
  squat("GPU-1");  // as soon as it is free
  ASSERT_TRUE(world.release(10, "a"));
  world.ground.stop(10);
  world.loop.advance(seconds(1));
  ASSERT_EQ(world.state("a"), LeaseState::ended);
  const auto passed = adopt();
  ASSERT_FALSE(passed);
  EXPECT_NE(passed.error().message.find("UID 2000 was waiting"), std::string::npos);
  ASSERT_TRUE(world.release(11, "b"));
  EXPECT_TRUE(adopt()) << "nobody waits any more";
}

// The process is older than the waiting claim: the start of its GPU use counts.
TEST_F(Adoption, GpuUseStartedAfterWaitingClaimIsRefused) {
  world.leases->on_processes();
  world.loop.run_posted();
  world.ground.start(kUnleasedPid);  // long before, on no GPU
  world.ground.start(11, 2000);
  LeaseSpec both;
  both.gpus = 2;
  ASSERT_EQ(world.claim(10, "a", both)->state, LeaseState::held);
  world.loop.advance(seconds(1));
  ASSERT_EQ(world.claim(11, "b", both)->state, LeaseState::waiting);
  world.loop.advance(seconds(1));
  world.ground.running.at(kUnleasedPid).gpus = {"GPU-1"};
  world.leases->on_processes();
  world.loop.advance(seconds(1));
  ASSERT_TRUE(world.release(10, "a"));
  world.ground.stop(10);
  world.loop.advance(seconds(1));
  const auto passed = adopt();
  ASSERT_FALSE(passed);
  EXPECT_NE(passed.error().message.find("UID 2000 was waiting"), std::string::npos)
      << passed.error().message;
}

TEST_F(Adoption, GpuUseBeforeWaitingClaimIsAllowed) {
  world.leases->on_processes();
  world.loop.run_posted();
  squat("GPU-1");
  world.leases->on_processes();
  world.loop.advance(seconds(1));
  world.ground.start(11, 2000);
  LeaseSpec both;
  both.gpus = 2;
  ASSERT_EQ(world.claim(11, "b", both)->state, LeaseState::waiting);
  world.loop.advance(seconds(1));
  world.leases->on_processes();
  world.loop.advance(seconds(1));
  EXPECT_TRUE(adopt());
}

TEST_F(Adoption, ObservationGapPreservesGpuUseStart) {
  ASSERT_EQ(world.claim(10, "a")->state, LeaseState::held);
  squat("GPU-1");
  world.leases->on_processes();
  world.loop.advance(seconds(1));
  world.ground.start(11, 2000);
  LeaseSpec both;
  both.gpus = 2;
  ASSERT_EQ(world.claim(11, "b", both)->state, LeaseState::waiting);
  for (const bool listed : {false, true}) {
    auto& gpus = world.ground.running.at(kUnleasedPid).gpus;
    gpus.clear();
    if (listed) gpus.insert("GPU-1");
    world.leases->on_processes();
    world.loop.advance(seconds(1));
  }
  EXPECT_TRUE(adopt());
}

// The GPU was leased to another user when the process began to use it, so the use does not count as
// older than the waiting claim.
TEST_F(Adoption, UseOfLeasedGpuGivesNoPrecedence) {
  LeaseSpec both;
  both.gpus = 2;
  ASSERT_EQ(world.claim(10, "a", both)->state, LeaseState::held);
  squat("GPU-1");
  world.leases->on_processes();
  world.loop.advance(seconds(1));
  world.ground.start(11, 2000);
  ASSERT_EQ(world.claim(11, "b", both)->state, LeaseState::waiting);
  world.loop.advance(seconds(5));
  world.leases->on_processes();
  world.loop.run_posted();
  ASSERT_TRUE(world.release(10, "a"));
  world.ground.stop(10);
  world.loop.advance(seconds(2));
  world.leases->on_processes();
  world.loop.run_posted();
  EXPECT_FALSE(adopt());
}

// A launcher that uses no GPU, and the workers of a tree below it.
class AdoptingATree : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kLauncher = 50;

  AdoptingATree() {
    world.ground.start(kLauncher);
    worker(51, kLauncher, "GPU-0");
    world.ground.start(52, 1000, kLauncher);
    worker(53, 52, "GPU-1");
  }
  void worker(std::uint32_t pid, std::uint32_t parent, const DeviceId& gpu, unsigned uid = 1000) {
    world.ground.start(pid, uid, parent);
    world.ground.running.at(pid).gpus.insert(gpu);
  }
  Result<Lease> adopt(std::uint32_t pid = kLauncher) {
    world.leases->on_processes();
    world.loop.run_posted();
    return world.heard([&](const LeaseManager::OnLease& answer) {
      world.leases->adopt(world.ground.caller(pid), pid, "", answer);
    });
  }

  // The unleased processes that use the GPU, by a new observation.
  std::vector<std::uint32_t> outside(const DeviceId& gpu) {
    world.leases->on_processes();
    world.loop.run_posted();
    std::vector<std::uint32_t> pids;
    const auto seen = world.leases->gpus().unleased_processes().find(gpu);
    if (seen == world.leases->gpus().unleased_processes().end()) return pids;
    for (const ObservedProcess& one : seen->second) pids.push_back(one.pid);
    return pids;
  }

  LeaseFixture world{4};
};

TEST_F(AdoptingATree, MakesOneLeaseOfTheWholeTree) {
  const auto lease = adopt();
  ASSERT_TRUE(lease) << lease.error().message;
  EXPECT_EQ(lease->gpus, (std::vector<DeviceId>{"GPU-0", "GPU-1"}));
  EXPECT_EQ(lease->processes.front().pid, kLauncher) << "the lease lasts as long as this one";
  EXPECT_EQ(lease->processes.size(), 3U);
  EXPECT_EQ(lease->detail, "");
  EXPECT_TRUE(outside("GPU-0").empty());
  EXPECT_TRUE(outside("GPU-1").empty());
  for (const std::uint32_t pid : {51U, 53U, 52U, kLauncher}) world.ground.stop(pid);
  world.loop.advance(seconds(1));
  EXPECT_EQ(world.state(lease->id), LeaseState::ended);
}

TEST_F(AdoptingATree, LeavesOtherUsersProcessesOutAndNamesThem) {
  worker(54, kLauncher, "GPU-2", 2000);
  worker(55, kLauncher, "GPU-1", 2000);
  const auto lease = adopt();
  ASSERT_TRUE(lease) << lease.error().message;
  EXPECT_EQ(lease->gpus, (std::vector<DeviceId>{"GPU-0", "GPU-1"}));
  EXPECT_EQ(lease->detail,
            "not adopted: PID 55 (python) of UID 2000 uses GPU-1, PID 54 (python) of UID 2000 "
            "uses GPU-2");
  EXPECT_EQ(outside("GPU-2"), std::vector<std::uint32_t>{54});
}

TEST_F(AdoptingATree, OfAnotherUserAloneIsRefusedAndNamesIt) {
  for (const std::uint32_t pid : {51U, 53U}) world.ground.stop(pid);
  worker(54, kLauncher, "GPU-2", 2000);
  const auto lease = adopt();
  ASSERT_FALSE(lease);
  EXPECT_EQ(lease.error().code, Errc::conflict);
  EXPECT_NE(lease.error().message.find("PID 54 (python) of UID 2000 uses GPU-2"), std::string::npos)
      << lease.error().message;
}

TEST_F(AdoptingATree, TakesNoSiblingAndNoParent) {
  worker(60, 1, "GPU-3");
  const auto lease = adopt(52);
  ASSERT_TRUE(lease) << lease.error().message;
  EXPECT_EQ(lease->gpus, std::vector<DeviceId>{"GPU-1"});
}

TEST_F(AdoptingATree, TakesNoGpuOfAnotherLease) {
  world.ground.start(10, 2000);
  LeaseSpec spec;
  spec.allowed_gpus = {"GPU-2"};
  ASSERT_EQ(world.claim(10, "a", spec)->state, LeaseState::held);
  worker(54, kLauncher, "GPU-2");
  const auto lease = adopt();
  ASSERT_TRUE(lease) << lease.error().message;
  EXPECT_EQ(lease->gpus, (std::vector<DeviceId>{"GPU-0", "GPU-1"}));
}

TEST_F(AdoptingATree, TakesNoMoreGpusThanTheQuotaAllows) {
  LeasePolicy policy;
  policy.fairness.max_gpus_per_owner = 1;
  LeaseFixture narrow(2, policy);
  narrow.ground.running = world.ground.running;
  const auto lease = narrow.heard([&](const LeaseManager::OnLease& answer) {
    narrow.leases->adopt(narrow.ground.caller(kLauncher), kLauncher, "", answer);
  });
  ASSERT_FALSE(lease);
  EXPECT_EQ(lease.error().message, "the limit is 1 GPU per user");
}

TEST_F(AdoptingATree, APassedOverClaimBarsTheWholeTree) {
  world.ground.start(11, 2000);
  LeaseSpec all;
  all.gpus = 4;
  world.ground.start(10, 2000);
  ASSERT_EQ(world.claim(10, "a")->state, LeaseState::held);
  ASSERT_EQ(world.claim(11, "b", all)->state, LeaseState::waiting);
  world.loop.advance(seconds(1));
  worker(54, kLauncher, "GPU-3");  // after the claim
  const auto lease = adopt();
  ASSERT_FALSE(lease);
  EXPECT_NE(lease.error().message.find("UID 2000 was waiting"), std::string::npos);
}

TEST_F(Adoption, RequestFloodIsBoundedAndSharesObservations) {
  squat("GPU-1");
  std::size_t answered = 0;
  std::size_t busy = 0;
  const std::size_t looks_before = world.ground.looks;
  for (int i = 0; i < 100; ++i) {
    world.leases->adopt(world.ground.caller(kUnleasedPid), kUnleasedPid, "",
                        [&](const Result<Lease>& lease) {
                          ++answered;
                          if (!lease && lease.error().code == Errc::busy) ++busy;
                        });
  }
  world.loop.run_posted();
  EXPECT_EQ(answered, 100U);
  EXPECT_EQ(busy, 100 - limits::kMaxAdoptionsPerUser);
  EXPECT_LE(world.ground.looks - looks_before, 2U);
}

TEST(LeaseManager, UnreadableNewGpuIsObservedOnceReadable) {
  LeaseFixture world(2);
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
  LeaseSpec all;
  all.gpus = 3;
  all.binding = Binding::detached;
  all.ttl = seconds(60);
  EXPECT_EQ(world.claim(10, "a", all)->state, LeaseState::waiting);
  EXPECT_EQ(world.leases->gpus().withheld_reason("GPU-2")->first, "squatted");
}

}  // namespace
}  // namespace gpuyard::lease
