// Several GPUs, several owners, and faults at the same time: cases that were once wrong.
#include <gtest/gtest.h>

#include "core/control/control_fixture_for_tests.h"

namespace gpuyard::control {
namespace {

using std::chrono::seconds;
using Writes = std::vector<std::string>;

class ConcurrentChanges : public ::testing::Test {
 protected:
  ConcurrentChanges() { daemon.start_driver_host(); }

  ChangeRequest all(const std::string& owner, ChangeAction action) {
    ChangeRequest request{{owner, true, "r", daemon.loop.now()}, {"GPU-0", "GPU-1"}, action};
    request.atomic = true;
    return request;
  }
  // Begins a request; its result may come later or never.
  std::shared_ptr<std::optional<Result<SettingController::Changes>>> begin(
      const ChangeRequest& request) {
    auto result = std::make_shared<std::optional<Result<SettingController::Changes>>>();
    daemon.control().submit(request, [result](const Result<SettingController::Changes>& changes) {
      result->emplace(changes);
    });
    daemon.settle();
    return result;
  }
  void fail_second_gpu() {
    fixture.driver_fails = Error{Errc::internal, "broken"};
    fixture.fails_only = "GPU-1";
  }
  std::vector<SettingClaim> claims(const DeviceId& gpu) {
    const ManagedSetting* held = daemon.control().managed_setting(gpu, SettingKind::power_limit);
    return held == nullptr ? std::vector<SettingClaim>() : held->claims;
  }

  ControlFixture fixture = ControlFixture::with_gpus(2);
  Daemon daemon{fixture};
};

TEST_F(ConcurrentChanges, TwoResetsAtOnceAreBothAnswered) {
  ChangeRequest first{{"root", true, "r", daemon.loop.now()}, {"GPU-0"}, Reset{}};
  ChangeRequest second = first;
  second.gpus = {"GPU-1"};
  first.dry_run = second.dry_run = true;
  std::vector<ChangeOutcome> outcomes;
  for (const ChangeRequest& request : {first, second}) {
    daemon.control().submit(request, [&](const Result<SettingController::Changes>& changes) {
      outcomes.push_back(changes->front().outcome);
    });
  }
  daemon.settle();
  EXPECT_EQ(outcomes, (std::vector{ChangeOutcome::planned, ChangeOutcome::planned}));
}

TEST_F(ConcurrentChanges, RollbackKeepsConcurrentClaimOfOtherOwner) {
  fail_second_gpu();
  daemon.hold_replies = true;
  daemon.hold_only = "GPU-1";
  const auto result = begin(all("root", SetValue{power_limit(400'000), {}}));
  EXPECT_EQ(daemon.put("a", power_limit(300'000)).outcome, ChangeOutcome::applied);
  daemon.release_replies();
  ASSERT_TRUE(*result && **result);
  EXPECT_EQ((**result)->front().outcome, ChangeOutcome::rolled_back);
  ASSERT_EQ(claims("GPU-0").size(), 1U);
  EXPECT_EQ(claims("GPU-0")[0].owner, "a");
  EXPECT_EQ(fixture.power("GPU-0").lowest, 300'000);
}

TEST_F(ConcurrentChanges, RollbackDoesNotReviveWithdrawnClaim) {
  daemon.put("a", power_limit(300'000));
  fail_second_gpu();
  daemon.hold_replies = true;
  daemon.hold_only = "GPU-1";
  begin(all("root", SetValue{power_limit(250'000), {}}));
  daemon.restore("a");
  daemon.release_replies();
  EXPECT_TRUE(claims("GPU-0").empty());
  EXPECT_EQ(fixture.power("GPU-0").lowest, 700'000);
}

TEST_F(ConcurrentChanges, FailedAtomicRestoreIsRolledBack) {
  daemon.put("a", power_limit(300'000));
  const auto result = begin(all("a", Restore{SettingKind::power_limit}));
  ASSERT_TRUE(*result && **result);
  EXPECT_EQ((**result)->at(0).outcome, ChangeOutcome::rolled_back);
  EXPECT_EQ((**result)->at(1).error->code, Errc::not_found);
  ASSERT_EQ(claims("GPU-0").size(), 1U);
  EXPECT_EQ(fixture.writes, (Writes{"GPU-0 300 W", "GPU-0 700 W", "GPU-0 300 W"}));
}

TEST_F(ConcurrentChanges, AtomicChangeRollsBackAfterRequestTimeout) {
  fail_second_gpu();
  daemon.hold_replies = true;
  daemon.hold_only = "GPU-1";
  const auto result = begin(all("a", SetValue{power_limit(400'000), {}}));
  daemon.pass(SettingController::kRequestTimeout);
  ASSERT_TRUE(*result);
  EXPECT_EQ((*result)->error().code, Errc::timed_out);
  daemon.release_replies();
  EXPECT_TRUE(claims("GPU-0").empty());
  EXPECT_EQ(fixture.power("GPU-0").lowest, 700'000);
}

TEST_F(ConcurrentChanges, FailedRollbackIsReportedAsFailed) {
  daemon.hold_replies = true;
  daemon.hold_only = "GPU-1";
  const auto result = begin(all("a", SetValue{power_limit(400'000), {}}));
  fixture.driver_fails = Error{Errc::internal, "broken"};
  daemon.release_replies();
  ASSERT_TRUE(*result && **result);
  EXPECT_EQ((**result)->at(0).outcome, ChangeOutcome::failed);
  EXPECT_NE((**result)->at(0).error->message.find("could not be rolled back"), std::string::npos);
}

TEST_F(ConcurrentChanges, ExpiryRetriesWithDelayOnFullDisk) {
  daemon.put("a", power_limit(300'000), seconds(3));
  fixture.disk_fails = Error{Errc::unavailable, "disk full"};
  const std::size_t before = daemon.saves;
  daemon.pass(seconds(4));
  EXPECT_LT(daemon.saves - before, 5U);
  fixture.disk_fails.reset();
  daemon.pass(GpuQueue::kReconcileDelay);
  EXPECT_EQ(fixture.power("GPU-0").lowest, 700'000);
}

TEST_F(ConcurrentChanges, ReapplyingRetriesWithDelayOnFullDisk) {
  daemon.put("a", power_limit(300'000));
  daemon.lose_host();
  fixture.reload_driver();
  fixture.disk_fails = Error{Errc::unavailable, "disk full"};
  daemon.start_driver_host();
  EXPECT_EQ(fixture.power("GPU-0").lowest, 700'000);
  fixture.disk_fails.reset();
  daemon.pass(GpuQueue::kReconcileDelay);
  EXPECT_EQ(fixture.power("GPU-0").lowest, 300'000);
}

TEST_F(ConcurrentChanges, HeldClaimReappliesDriftedEffectiveClaim) {
  daemon.put("a", power_limit(300'000));
  fixture.power("GPU-0") = {500'000, 500'000};
  daemon.lose_host();
  daemon.start_driver_host();
  EXPECT_EQ(daemon.put("b", power_limit(400'000)).outcome, ChangeOutcome::held);
  EXPECT_EQ(fixture.power("GPU-0").lowest, 300'000);
}

TEST_F(ConcurrentChanges, ReplacedDriftedValueBecomesBaseline) {
  daemon.put("a", power_limit(300'000));
  fixture.power("GPU-0") = {500'000, 500'000};
  daemon.put("a", power_limit(400'000));
  daemon.restore("a");
  EXPECT_EQ(fixture.writes, (Writes{"GPU-0 300 W", "GPU-0 400 W", "GPU-0 500 W"}));
}

TEST(ConcurrentChangesAtStop, OwedSettingIsRestored) {
  ControlFixture fixture = ControlFixture::with_gpus(1);
  {
    Daemon daemon(fixture, {true, true});
    daemon.start_driver_host();
    daemon.put("a", power_limit(300'000));
    daemon.lose_host();
    daemon.hold_replies = true;  // the reads of the new driver-host
    daemon.start_driver_host();
    daemon.lose_host();
    daemon.hold_replies = false;
    daemon.start_driver_host();
    daemon.stop();
  }
  EXPECT_EQ(fixture.power("GPU-0").lowest, 700'000);
  EXPECT_EQ(fixture.disk.size(), 1U);
}

}  // namespace
}  // namespace gpuyard::control
