// The GPUs that are leased, and the unleased processes that use one.
#include "core/lease/lease_manager.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "core/lease/lease_fixture_for_tests.h"

namespace gpuyard::lease {
namespace {

using std::chrono::seconds;

TEST(LeaseManager, ForcedEndTurnsLeftoversIntoUnleasedProcesses) {
  LeaseFixture fixture(1);
  fixture.observer.start(1, 0);
  for (std::uint32_t pid : {10U, 11U, 12U}) fixture.observer.start(pid);
  ASSERT_TRUE(fixture.claim(10, "a"));
  ASSERT_TRUE(fixture.claim(11, "b"));
  fixture.observer.running.at(12).lease = "a";
  fixture.observer.running.at(12).gpus = {"GPU-0"};
  fixture.observer.stop(10);
  fixture.loop.advance(seconds(1));
  ASSERT_EQ(fixture.state("a"), LeaseState::draining);
  ASSERT_TRUE(fixture.release(1, "a", {{}, true, "it hangs"}));
  EXPECT_EQ(fixture.leases->find("a")->detail, "it hangs");
  EXPECT_EQ(fixture.state("b"), LeaseState::waiting);
  EXPECT_EQ(fixture.leases->gpus().withheld_reason("GPU-0")->first, "squatted");
}

TEST(LeaseManager, UnleasedProcessWithholdsGpu) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  fixture.observer.start(66, 2000);
  fixture.observer.running.at(66).gpus = {"GPU-0"};
  fixture.leases->on_processes();
  fixture.loop.run_posted();
  const auto waits = fixture.claim(10, "a");
  ASSERT_TRUE(waits);
  EXPECT_EQ(waits->state, LeaseState::waiting);
  ASSERT_EQ(fixture.leases->queue_entries(10).size(), 1U);
  EXPECT_EQ(fixture.leases->queue_entries(10).front().queue_position.reason, WaitReason::squatted);
  EXPECT_EQ(fixture.leases->gpus().withheld_reason("GPU-0")->first, "squatted");
  fixture.observer.stop(66);
  fixture.leases->on_processes();
  fixture.loop.run_posted();
  EXPECT_EQ(fixture.state("a"), LeaseState::held);
}

TEST(LeaseManager, UnattributedMemoryUseWithholdsGpu) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  fixture.fleet[0].free_bytes = std::int64_t{20} << 30;
  fixture.leases->on_gpus(fixture.fleet);
  EXPECT_EQ(fixture.claim(10, "a")->state, LeaseState::waiting);
  EXPECT_EQ(fixture.leases->gpus().withheld_reason("GPU-0")->first, "in_use");
  fixture.fleet[0].free_bytes = fixture.fleet[0].total_bytes;
  fixture.leases->on_gpus(fixture.fleet);
  fixture.loop.run_posted();
  EXPECT_EQ(fixture.state("a"), LeaseState::held);
}

// Gives the GPU one reading of its activity a second.
void read_activity(LeaseFixture& fixture, bool busy, int readings) {
  for (int i = 0; i < readings; ++i) {
    fixture.loop.advance(seconds(1));
    fixture.fleet[0].activity = Activity{fixture.loop.now(), busy, "97 % utilisation"};
    fixture.leases->on_gpus(fixture.fleet);
    fixture.loop.run_posted();
  }
}

TEST(LeaseManager, UnattributedActivityWithholdsGpu) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  read_activity(fixture, false, 1);
  read_activity(fixture, true, 3);
  EXPECT_EQ(fixture.claim(10, "a")->state, LeaseState::waiting);
  EXPECT_EQ(
      fixture.leases->gpus().withheld_reason("GPU-0"),
      WithheldReason("in_use",
                     "busy (97 % utilisation), although no lease and no listed process uses it"));
  EXPECT_EQ(fixture.leases->queue_entries(10).front().queue_position.reason, WaitReason::squatted);
  read_activity(fixture, false, 10);
  EXPECT_EQ(fixture.state("a"), LeaseState::held);
}

TEST(LeaseManager, ActivityUnderALeaseIsNotHiddenUse) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  ASSERT_EQ(fixture.claim(10, "a")->state, LeaseState::held);
  read_activity(fixture, true, 5);
  ASSERT_TRUE(fixture.release(10, "a"));
  read_activity(fixture, true, 2);
  fixture.observer.start(11);
  EXPECT_EQ(fixture.claim(11, "b")->state, LeaseState::held) << "a reading may lag behind its end";
}

TEST(LeaseManager, UnknownGpuIsGrantedOnceKnownAndObserved) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  fixture.fleet[0].withheld = std::string(kUnknown);
  fixture.leases->on_gpus(fixture.fleet);
  EXPECT_EQ(fixture.claim(10, "a")->state, LeaseState::waiting);
  fixture.fleet[0].withheld.clear();
  fixture.leases->on_gpus(fixture.fleet);
  fixture.loop.run_posted();
  EXPECT_EQ(fixture.state("a"), LeaseState::held);
}

TEST(LeaseManager, NewlyKnownGpuIsWithheldForUnleasedProcess) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  fixture.fleet[0].withheld = std::string(kUnknown);
  fixture.leases->on_gpus(fixture.fleet);
  EXPECT_EQ(fixture.claim(10, "a")->state, LeaseState::waiting);
  fixture.observer.start(66);
  fixture.observer.running.at(66).gpus = {"GPU-0"};
  fixture.fleet[0].withheld.clear();
  fixture.leases->on_gpus(fixture.fleet);
  fixture.loop.run_posted();
  EXPECT_EQ(fixture.state("a"), LeaseState::waiting);
  EXPECT_EQ(fixture.leases->gpus().withheld_reason("GPU-0")->first, "squatted");
}

std::optional<Error> override_withholding(LeaseFixture& fixture) {
  std::optional<Result<void>> answer;
  fixture.leases->override_withholding(fixture.observer.caller(1), {"GPU-0"},
                                       "its sensor is broken",
                                       [&](const Result<void>& done) { answer = done; });
  fixture.loop.run_posted();
  if (!answer) return Error{Errc::timed_out, "no answer"};
  return *answer ? std::nullopt : std::optional(answer->error());
}

TEST(LeaseManager, OverrideOfUnknownGpuEndsWithNewReason) {
  LeaseFixture fixture(1);
  fixture.observer.start(1, 0);
  fixture.observer.start(10);
  fixture.fleet[0].withheld = std::string(kUnknown);
  fixture.leases->on_gpus(fixture.fleet);
  ASSERT_TRUE(fixture.claim(10, "a"));
  ASSERT_FALSE(override_withholding(fixture));
  EXPECT_EQ(fixture.state("a"), LeaseState::held);
  ASSERT_TRUE(fixture.release(10, "a"));
  fixture.loop.advance(LeaseManager::kFirstDrainPollDelay);
  fixture.fleet[0].withheld.clear();
  fixture.leases->on_gpus(fixture.fleet);
  fixture.fleet[0].withheld = std::string(kUnknown);
  fixture.leases->on_gpus(fixture.fleet);
  EXPECT_EQ(fixture.leases->gpus().withheld_reason("GPU-0")->first, kUnknown)
      << "it was known between";
}

TEST(LeaseManager, OverrideOfBusyGpuEndsWhenIdle) {
  LeaseFixture fixture(1);
  fixture.observer.start(1, 0);
  fixture.observer.start(10);
  read_activity(fixture, true, 3);
  ASSERT_TRUE(fixture.claim(10, "a"));
  ASSERT_EQ(fixture.state("a"), LeaseState::waiting);
  ASSERT_FALSE(override_withholding(fixture));
  EXPECT_EQ(fixture.state("a"), LeaseState::held);
  ASSERT_TRUE(fixture.release(10, "a"));
  read_activity(fixture, false, 11);
  read_activity(fixture, true, 3);
  EXPECT_EQ(fixture.leases->gpus().withheld_reason("GPU-0")->first, kInUse);
}

TEST(LeaseManager, AnOverrideOutlastsTheLeasesThatItAllowed) {
  LeaseFixture fixture(1);
  fixture.observer.start(1, 0);
  fixture.observer.start(10);
  read_activity(fixture, true, 3);
  ASSERT_FALSE(override_withholding(fixture));
  ASSERT_EQ(fixture.claim(10, "a")->state, LeaseState::held);
  read_activity(fixture, true, 2);
  ASSERT_TRUE(fixture.release(10, "a"));
  read_activity(fixture, true, 5);
  EXPECT_FALSE(fixture.leases->gpus().withheld_reason("GPU-0")) << "its counter is still stuck";
}

TEST(LeaseManager, BothReasonsOfAGpuCanBeOverridden) {
  LeaseFixture fixture(1);
  fixture.observer.start(1, 0);
  read_activity(fixture, true, 3);
  fixture.fleet[0].withheld = std::string(kUnknown);
  fixture.leases->on_gpus(fixture.fleet);
  ASSERT_FALSE(override_withholding(fixture));
  EXPECT_EQ(fixture.leases->gpus().withheld_reason("GPU-0")->first, kInUse);
  ASSERT_FALSE(override_withholding(fixture));
  EXPECT_FALSE(fixture.leases->gpus().withheld_reason("GPU-0"));
}

TEST(LeaseManager, StallKeepsHiddenWorkEvidence) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  read_activity(fixture, true, 3);
  fixture.fleet[0].activity.reset();
  fixture.fleet[0].withheld = "unresponsive";
  fixture.leases->on_gpus(fixture.fleet);
  fixture.fleet[0].withheld.clear();
  read_activity(fixture, true, 1);
  EXPECT_EQ(fixture.claim(10, "a")->state, LeaseState::waiting);
}

TEST(LeaseManager, AKnownReasonCannotBeOverridden) {
  LeaseFixture fixture(1);
  fixture.observer.start(1, 0);
  fixture.fleet[0].withheld = "unhealthy";
  fixture.leases->on_gpus(fixture.fleet);
  EXPECT_EQ(override_withholding(fixture)->code, Errc::conflict);
}

TEST(LeaseManager, UnknownFreeMemoryIsNotEnough) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  fixture.fleet[0].free_bytes.reset();
  fixture.leases->on_gpus(fixture.fleet);
  LeaseSpec large;
  large.min_free_bytes = std::int64_t{10} << 30;
  EXPECT_EQ(fixture.claim(10, "a", large)->state, LeaseState::waiting);
  EXPECT_EQ(fixture.leases->queue_entries(10).front().queue_position.reason, WaitReason::memory);
  fixture.observer.start(11);
  EXPECT_EQ(fixture.claim(11, "b")->state, LeaseState::held) << "it asks for no memory";
}

TEST(LeaseManager, MemoryRequestWithoutMemoryReportingIsInvalid) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  fixture.fleet[0].total_bytes.reset();
  fixture.fleet[0].free_bytes.reset();
  fixture.fleet[0].reports_memory = false;
  fixture.leases->on_gpus(fixture.fleet);
  LeaseSpec large;
  large.min_free_bytes = 1;
  EXPECT_EQ(fixture.claim(10, "a", large).error().code, Errc::invalid);
  EXPECT_EQ(fixture.claim(10, "b")->state, LeaseState::held);
}

TEST(LeaseManager, GpuWithGraphicsProcessIsLeased) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  fixture.fleet[0].free_bytes = std::int64_t{70} << 30;
  fixture.fleet[0].graphics_bytes = std::int64_t{9} << 30;
  fixture.leases->on_gpus(fixture.fleet);
  EXPECT_EQ(fixture.claim(10, "a")->state, LeaseState::held);
}

TEST(LeaseManager, NewGpuIsObservedBeforeFirstGrant) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  fixture.observer.start(66);
  fixture.observer.running.at(66).gpus = {"GPU-1"};
  LeaseSpec both;
  both.gpus = 2;
  both.binding = Binding::detached;  // a detached claim is decided at once
  both.ttl = seconds(60);
  PoolGpu later = fixture.fleet[0];
  later.info.id = later.info.uuid = "GPU-1";
  later.info.index = 1;
  fixture.fleet.push_back(later);
  fixture.leases->on_gpus(fixture.fleet);
  EXPECT_EQ(fixture.leases->gpus().withheld_reason("GPU-1")->first, "new");
  EXPECT_EQ(fixture.claim(10, "a", both)->state, LeaseState::waiting);
  EXPECT_EQ(fixture.leases->gpus().withheld_reason("GPU-1")->first, "squatted");
  fixture.observer.stop(66);
  fixture.leases->on_processes();
  fixture.loop.run_posted();
  EXPECT_EQ(fixture.state("a"), LeaseState::held);
}

TEST(LeaseManager, UnleasedProcessIsAdoptableBySameUserOnly) {
  LeaseFixture fixture(2);
  fixture.observer.start(10, 2000);
  fixture.observer.start(66);
  fixture.observer.running.at(66).gpus = {"GPU-1"};
  const auto adopt = [&](std::uint32_t caller) {
    return fixture.result_of([&](const LeaseManager::OnLease& answer) {
      fixture.leases->adopt(fixture.observer.caller(caller), 66, "", answer);
    });
  };
  EXPECT_EQ(adopt(10).error().code, Errc::denied);
  const auto lease = adopt(66);
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->gpus, std::vector<DeviceId>{"GPU-1"});
  EXPECT_EQ(lease->state, LeaseState::held);
  EXPECT_EQ(adopt(66).error().code, Errc::conflict);
  fixture.observer.stop(66);
  fixture.loop.advance(seconds(1));
  EXPECT_EQ(fixture.state(lease->id), LeaseState::ended);
}

TEST(LeaseManager, FailedDrainCheckKeepsLeaseDraining) {
  LeaseFixture fixture(1);
  fixture.observer.start(10);
  fixture.observer.start(11, 2000);
  std::optional<std::string> left = "the power_limit of GPU-0 has not been restored yet";
  fixture.leases->set_drain_check([&](const Lease&) { return left; });
  ASSERT_EQ(fixture.claim(10, "a")->state, LeaseState::held);
  ASSERT_EQ(fixture.claim(11, "b")->state, LeaseState::waiting);
  ASSERT_TRUE(fixture.release(10, "a"));
  fixture.observer.stop(10);
  fixture.loop.advance(seconds(5));
  EXPECT_EQ(fixture.state("a"), LeaseState::draining);
  EXPECT_EQ(fixture.state("b"), LeaseState::waiting);
  left.reset();
  fixture.loop.advance(seconds(1));
  EXPECT_EQ(fixture.state("a"), LeaseState::ended);
  EXPECT_EQ(fixture.state("b"), LeaseState::held);
}

TEST(LeaseManager, SubordinateUidsShareOwnerQuota) {
  LeasePolicy policy;
  policy.fairness.max_gpus_per_owner = 1;
  policy.quota_owner = [](std::uint32_t uid) { return uid >= 100'000 ? 1000U : uid; };
  LeaseFixture fixture(2, policy);
  fixture.observer.start(10, 1000);
  fixture.observer.start(11, 100'001);
  fixture.observer.start(12, 2000);
  EXPECT_EQ(fixture.claim(10, "a")->state, LeaseState::held);
  EXPECT_EQ(fixture.claim(11, "b")->state, LeaseState::waiting);
  EXPECT_EQ(fixture.claim(12, "c")->state, LeaseState::held);
  EXPECT_EQ(fixture.leases->queue_entries(1).at(0).queue_position.reason, WaitReason::quota);
  EXPECT_EQ(fixture.leases->find("b")->uid, 100'001U)
      << "he is who he is, and counts with the other";
}

class Adoption : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kUnleasedPid = 66;

  Adoption() { fixture.observer.start(10, 2000); }
  void squat(const DeviceId& gpu) {
    fixture.observer.start(kUnleasedPid);
    fixture.observer.running.at(kUnleasedPid).gpus = {gpu};
    fixture.leases->on_processes();
    fixture.loop.run_posted();
  }
  Result<Lease> adopt() {
    return fixture.result_of([&](const LeaseManager::OnLease& answer) {
      fixture.leases->adopt(fixture.observer.caller(kUnleasedPid), kUnleasedPid, "", answer);
    });
  }

  LeaseFixture fixture{2};
};

TEST_F(Adoption, WithheldGpuIsNotAdopted) {
  squat("GPU-1");
  fixture.leases->cordon({0, true}, {"GPU-1"}, "broken fan", [](const Result<void>&) {});
  const auto cordoned = adopt();
  ASSERT_FALSE(cordoned);
  EXPECT_NE(cordoned.error().message.find("broken fan"), std::string::npos);
  fixture.leases->uncordon({0, true}, {"GPU-1"}, [](const Result<void>&) {});
  fixture.fleet[1].withheld = "quarantined";
  fixture.fleet[1].text = "alert 7 stopped the line";
  fixture.leases->on_gpus(fixture.fleet);
  const auto quarantined = adopt();
  ASSERT_FALSE(quarantined);
  EXPECT_NE(quarantined.error().message.find("alert 7"), std::string::npos);
}

TEST_F(Adoption, ProcessStartedAfterWaitingClaimIsRefused) {
  fixture.observer.start(11, 2000);
  LeaseSpec both;
  both.gpus = 2;
  ASSERT_EQ(fixture.claim(10, "a", both)->state, LeaseState::held);
  ASSERT_EQ(fixture.claim(11, "b", both)->state, LeaseState::waiting);
  fixture.loop.advance(seconds(1));
  squat("GPU-1");  // as soon as it is free
  ASSERT_TRUE(fixture.release(10, "a"));
  fixture.observer.stop(10);
  fixture.loop.advance(seconds(1));
  ASSERT_EQ(fixture.state("a"), LeaseState::ended);
  const auto passed = adopt();
  ASSERT_FALSE(passed);
  EXPECT_NE(passed.error().message.find("UID 2000 was waiting"), std::string::npos);
  ASSERT_TRUE(fixture.release(11, "b"));
  EXPECT_TRUE(adopt()) << "nobody waits any more";
}

// The process is older than the waiting claim: the start of its GPU use counts.
TEST_F(Adoption, GpuUseStartedAfterWaitingClaimIsRefused) {
  fixture.leases->on_processes();
  fixture.loop.run_posted();
  fixture.observer.start(kUnleasedPid);  // long before, on no GPU
  fixture.observer.start(11, 2000);
  LeaseSpec both;
  both.gpus = 2;
  ASSERT_EQ(fixture.claim(10, "a", both)->state, LeaseState::held);
  fixture.loop.advance(seconds(1));
  ASSERT_EQ(fixture.claim(11, "b", both)->state, LeaseState::waiting);
  fixture.loop.advance(seconds(1));
  fixture.observer.running.at(kUnleasedPid).gpus = {"GPU-1"};
  fixture.leases->on_processes();
  fixture.loop.advance(seconds(1));
  ASSERT_TRUE(fixture.release(10, "a"));
  fixture.observer.stop(10);
  fixture.loop.advance(seconds(1));
  const auto passed = adopt();
  ASSERT_FALSE(passed);
  EXPECT_NE(passed.error().message.find("UID 2000 was waiting"), std::string::npos)
      << passed.error().message;
}

TEST_F(Adoption, GpuUseBeforeWaitingClaimIsAllowed) {
  fixture.leases->on_processes();
  fixture.loop.run_posted();
  squat("GPU-1");
  fixture.leases->on_processes();
  fixture.loop.advance(seconds(1));
  fixture.observer.start(11, 2000);
  LeaseSpec both;
  both.gpus = 2;
  ASSERT_EQ(fixture.claim(11, "b", both)->state, LeaseState::waiting);
  fixture.loop.advance(seconds(1));
  fixture.leases->on_processes();
  fixture.loop.advance(seconds(1));
  EXPECT_TRUE(adopt());
}

TEST_F(Adoption, ObservationGapPreservesGpuUseStart) {
  ASSERT_EQ(fixture.claim(10, "a")->state, LeaseState::held);
  squat("GPU-1");
  fixture.leases->on_processes();
  fixture.loop.advance(seconds(1));
  fixture.observer.start(11, 2000);
  LeaseSpec both;
  both.gpus = 2;
  ASSERT_EQ(fixture.claim(11, "b", both)->state, LeaseState::waiting);
  for (const bool listed : {false, true}) {
    auto& gpus = fixture.observer.running.at(kUnleasedPid).gpus;
    gpus.clear();
    if (listed) gpus.insert("GPU-1");
    fixture.leases->on_processes();
    fixture.loop.advance(seconds(1));
  }
  EXPECT_TRUE(adopt());
}

// The GPU was leased to another user when the process began to use it, so the use does not count as
// older than the waiting claim.
TEST_F(Adoption, UseOfLeasedGpuGivesNoPrecedence) {
  LeaseSpec both;
  both.gpus = 2;
  ASSERT_EQ(fixture.claim(10, "a", both)->state, LeaseState::held);
  squat("GPU-1");
  fixture.leases->on_processes();
  fixture.loop.advance(seconds(1));
  fixture.observer.start(11, 2000);
  ASSERT_EQ(fixture.claim(11, "b", both)->state, LeaseState::waiting);
  fixture.loop.advance(seconds(5));
  fixture.leases->on_processes();
  fixture.loop.run_posted();
  ASSERT_TRUE(fixture.release(10, "a"));
  fixture.observer.stop(10);
  fixture.loop.advance(seconds(2));
  fixture.leases->on_processes();
  fixture.loop.run_posted();
  EXPECT_FALSE(adopt());
}

// A launcher that uses no GPU, and the workers of a tree below it.
class TreeAdoption : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kLauncher = 50;

  TreeAdoption() {
    fixture.observer.start(kLauncher);
    worker(51, kLauncher, "GPU-0");
    fixture.observer.start(52, 1000, kLauncher);
    worker(53, 52, "GPU-1");
  }
  void worker(std::uint32_t pid, std::uint32_t parent, const DeviceId& gpu, unsigned uid = 1000) {
    fixture.observer.start(pid, uid, parent);
    fixture.observer.running.at(pid).gpus.insert(gpu);
  }
  Result<Lease> adopt(std::uint32_t pid = kLauncher) {
    fixture.leases->on_processes();
    fixture.loop.run_posted();
    return fixture.result_of([&](const LeaseManager::OnLease& answer) {
      fixture.leases->adopt(fixture.observer.caller(pid), pid, "", answer);
    });
  }

  // The unleased processes that use the GPU, by a new observation.
  std::vector<std::uint32_t> outside(const DeviceId& gpu) {
    fixture.leases->on_processes();
    fixture.loop.run_posted();
    std::vector<std::uint32_t> pids;
    const auto seen = fixture.leases->gpus().unleased().all().find(gpu);
    if (seen == fixture.leases->gpus().unleased().all().end()) return pids;
    for (const ObservedProcess& one : seen->second) pids.push_back(one.pid);
    return pids;
  }

  LeaseFixture fixture{4};
};

TEST_F(TreeAdoption, MakesOneLeaseOfTheWholeTree) {
  const auto lease = adopt();
  ASSERT_TRUE(lease) << lease.error().message;
  EXPECT_EQ(lease->gpus, (std::vector<DeviceId>{"GPU-0", "GPU-1"}));
  EXPECT_EQ(lease->processes.front().pid, kLauncher) << "the lease lasts as long as this one";
  EXPECT_EQ(lease->processes.size(), 3U);
  EXPECT_EQ(lease->detail, "");
  EXPECT_TRUE(outside("GPU-0").empty());
  EXPECT_TRUE(outside("GPU-1").empty());
  for (const std::uint32_t pid : {51U, 53U, 52U, kLauncher}) fixture.observer.stop(pid);
  fixture.loop.advance(seconds(1));
  EXPECT_EQ(fixture.state(lease->id), LeaseState::ended);
}

TEST_F(TreeAdoption, ForeignProcessesAreLeftOutAndNamed) {
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

TEST_F(TreeAdoption, ForeignTreeIsRefusedNamingProcess) {
  for (const std::uint32_t pid : {51U, 53U}) fixture.observer.stop(pid);
  worker(54, kLauncher, "GPU-2", 2000);
  const auto lease = adopt();
  ASSERT_FALSE(lease);
  EXPECT_EQ(lease.error().code, Errc::conflict);
  EXPECT_NE(lease.error().message.find("PID 54 (python) of UID 2000 uses GPU-2"), std::string::npos)
      << lease.error().message;
}

TEST_F(TreeAdoption, TakesNoSiblingAndNoParent) {
  worker(60, 1, "GPU-3");
  const auto lease = adopt(52);
  ASSERT_TRUE(lease) << lease.error().message;
  EXPECT_EQ(lease->gpus, std::vector<DeviceId>{"GPU-1"});
}

TEST_F(TreeAdoption, TakesNoGpuOfAnotherLease) {
  fixture.observer.start(10, 2000);
  LeaseSpec spec;
  spec.allowed_gpus = {"GPU-2"};
  ASSERT_EQ(fixture.claim(10, "a", spec)->state, LeaseState::held);
  worker(54, kLauncher, "GPU-2");
  const auto lease = adopt();
  ASSERT_TRUE(lease) << lease.error().message;
  EXPECT_EQ(lease->gpus, (std::vector<DeviceId>{"GPU-0", "GPU-1"}));
}

TEST_F(TreeAdoption, TakesNoMoreGpusThanTheQuotaAllows) {
  LeasePolicy policy;
  policy.fairness.max_gpus_per_owner = 1;
  LeaseFixture narrow(2, policy);
  narrow.observer.running = fixture.observer.running;
  const auto lease = narrow.result_of([&](const LeaseManager::OnLease& answer) {
    narrow.leases->adopt(narrow.observer.caller(kLauncher), kLauncher, "", answer);
  });
  ASSERT_FALSE(lease);
  EXPECT_EQ(lease.error().message, "the limit is 1 GPU per user");
}

TEST_F(TreeAdoption, EarlierWaitingClaimBlocksWholeTree) {
  fixture.observer.start(11, 2000);
  LeaseSpec all;
  all.gpus = 4;
  fixture.observer.start(10, 2000);
  ASSERT_EQ(fixture.claim(10, "a")->state, LeaseState::held);
  ASSERT_EQ(fixture.claim(11, "b", all)->state, LeaseState::waiting);
  fixture.loop.advance(seconds(1));
  worker(54, kLauncher, "GPU-3");  // after the claim
  const auto lease = adopt();
  ASSERT_FALSE(lease);
  EXPECT_NE(lease.error().message.find("UID 2000 was waiting"), std::string::npos);
}

TEST_F(Adoption, RequestFloodIsBoundedAndSharesObservations) {
  squat("GPU-1");
  std::size_t answered = 0;
  std::size_t busy = 0;
  const std::size_t looks_before = fixture.observer.observation_count;
  for (int i = 0; i < 100; ++i) {
    fixture.leases->adopt(fixture.observer.caller(kUnleasedPid), kUnleasedPid, "",
                          [&](const Result<Lease>& lease) {
                            ++answered;
                            if (!lease && lease.error().code == Errc::busy) ++busy;
                          });
  }
  fixture.loop.run_posted();
  EXPECT_EQ(answered, 100U);
  EXPECT_EQ(busy, 100 - limits::kMaxAdoptionsPerUser);
  EXPECT_LE(fixture.observer.observation_count - looks_before, 2U);
}

TEST(LeaseManager, UnreadableNewGpuIsObservedOnceReadable) {
  LeaseFixture fixture(2);
  fixture.observer.start(10);
  fixture.observer.start(66);
  fixture.observer.running.at(66).gpus = {"GPU-2"};
  fixture.observer.unreadable = {"GPU-2"};
  PoolGpu later = fixture.fleet[0];
  later.info.id = later.info.uuid = "GPU-2";
  later.info.index = 2;
  later.withheld = "unresponsive";
  fixture.fleet.push_back(later);
  fixture.leases->on_gpus(fixture.fleet);
  fixture.loop.run_posted();
  fixture.leases->on_processes();
  fixture.loop.run_posted();
  fixture.observer.unreadable.clear();
  fixture.fleet.back().withheld.clear();
  fixture.leases->on_gpus(fixture.fleet);
  LeaseSpec all;
  all.gpus = 3;
  all.binding = Binding::detached;
  all.ttl = seconds(60);
  EXPECT_EQ(fixture.claim(10, "a", all)->state, LeaseState::waiting);
  EXPECT_EQ(fixture.leases->gpus().withheld_reason("GPU-2")->first, "squatted");
}

}  // namespace
}  // namespace gpuyard::lease
