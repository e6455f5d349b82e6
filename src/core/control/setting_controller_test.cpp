#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "core/control/control_fixture_for_tests.h"

namespace gpuyard::control {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using Writes = std::vector<std::string>;

class SettingControllerTest : public ::testing::Test {
 protected:
  SettingControllerTest() { daemon.start_driver_host(); }

  ControlFixture fixture = ControlFixture::with_gpus(2);
  Daemon daemon{fixture};
};

TEST_F(SettingControllerTest, RestoreReturnsToBaseline) {
  const ChangeResult set = daemon.put("a", power_limit(300'000));
  EXPECT_EQ(set.outcome, ChangeOutcome::applied);
  EXPECT_EQ(set.before, power_limit(700'000));
  EXPECT_EQ(set.after, power_limit(300'000));
  EXPECT_EQ(set.owner, "a");
  EXPECT_EQ(daemon.restore("a").outcome, ChangeOutcome::restored);
  EXPECT_EQ(fixture.writes, (Writes{"GPU-0 300 W", "GPU-0 700 W"}));
  EXPECT_TRUE(fixture.disk.empty());
}

TEST_F(SettingControllerTest, LowerOfTwoPowerLimitsIsInForce) {
  daemon.put("a", power_limit(300'000));
  const ChangeResult held = daemon.put("b", power_limit(400'000));
  EXPECT_EQ(held.outcome, ChangeOutcome::held);
  EXPECT_EQ(held.after, power_limit(300'000));
  EXPECT_EQ(held.owner, "a");
  EXPECT_EQ(daemon.put("a", power_limit(500'000)).owner, "b") << "whose limit is the lower one now";
  daemon.put("a", power_limit(200'000));
  daemon.restore("b");
  daemon.restore("a");
  EXPECT_EQ(fixture.writes, (Writes{"GPU-0 300 W", "GPU-0 400 W", "GPU-0 200 W", "GPU-0 700 W"}));
}

TEST_F(SettingControllerTest, OtherSettingsHaveOneOwner) {
  EXPECT_EQ(daemon.put("a", gpu_clocks(1200, 1500), minutes(30)).outcome, ChangeOutcome::assumed);
  const ChangeResult refused = daemon.put("b", gpu_clocks(900, 900));
  ASSERT_TRUE(refused.error);
  EXPECT_EQ(refused.error->code, Errc::conflict);
  EXPECT_EQ(refused.error->message,
            "a has set the GPU clocks of GPU 0, until 2023-11-14T22:43:20.000Z; ask them, or an "
            "administrator, who can use force");
  EXPECT_EQ(daemon.restore("b", SettingKind::gpu_clocks).error->code, Errc::conflict);
  EXPECT_EQ(fixture.writes, (Writes{"GPU-0 [1200, 1500] MHz"}));
}

TEST_F(SettingControllerTest, ForceRequiresAdministratorAndIsAudited) {
  daemon.put("a", gpu_clocks(1200, 1500));
  ChangeRequest request{
      {"b", false, "r", daemon.loop.now()}, {"GPU-0"}, SetValue{gpu_clocks(900, 900), {}}};
  request.force = true;
  daemon.ask(request);
  ASSERT_TRUE(daemon.error);
  EXPECT_EQ(daemon.error->code, Errc::denied);
  request.requester.admin = true;
  EXPECT_EQ(daemon.ask(request).front().owner, "b");
  ASSERT_FALSE(fixture.audit.empty());
  EXPECT_TRUE(fixture.audit.back().forced);
  EXPECT_EQ(fixture.audit.back().by, "b");
  EXPECT_EQ(daemon.restore("a", SettingKind::gpu_clocks).error->code, Errc::conflict);
}

TEST_F(SettingControllerTest, OutOfRangeValueIsRefusedWithoutWrite) {
  const ChangeResult refused = daemon.put("a", power_limit(900'000));
  ASSERT_TRUE(refused.error);
  EXPECT_EQ(refused.error->code, Errc::invalid);
  EXPECT_NE(refused.error->message.find("100 W to 700 W"), std::string::npos);
  EXPECT_TRUE(fixture.writes.empty());
  EXPECT_TRUE(fixture.disk.empty());
  EXPECT_EQ(daemon.control().managed_setting("GPU-0", SettingKind::power_limit), nullptr);
}

TEST_F(SettingControllerTest, OutOfRangeHeldClaimIsRefused) {
  daemon.put("a", power_limit(300'000));
  const ChangeResult refused = daemon.put("b", power_limit(900'000));
  ASSERT_TRUE(refused.error);
  EXPECT_EQ(refused.error->code, Errc::invalid);
  EXPECT_EQ(daemon.put("b", power_limit(400'000)).outcome, ChangeOutcome::held);
  // Nor may an owner raise a claim beyond the range, even if another owner's comes in force by it.
  EXPECT_EQ(daemon.put("a", power_limit(900'000)).error->code, Errc::invalid);
  EXPECT_EQ(daemon.restore("a").after, power_limit(400'000));
  EXPECT_EQ(daemon.restore("b").after, power_limit(700'000));
  EXPECT_EQ(fixture.writes, (Writes{"GPU-0 300 W", "GPU-0 400 W", "GPU-0 700 W"}));
}

TEST_F(SettingControllerTest, FailedWriteKeepsPreviousClaim) {
  daemon.put("a", power_limit(300'000));
  fixture.driver_fails = Error{Errc::denied, "no permission"};
  EXPECT_TRUE(daemon.put("a", power_limit(200'000), {}, "GPU-1").error);
  EXPECT_EQ(fixture.disk.size(), 1U) << "a first claim that fails is dropped";
  const ChangeResult failed = daemon.put("a", power_limit(200'000));
  ASSERT_TRUE(failed.error);
  EXPECT_EQ(failed.error->code, Errc::denied);
  fixture.driver_fails.reset();
  EXPECT_EQ(effective_setting(*daemon.control().managed_setting("GPU-0", SettingKind::power_limit)),
            power_limit(300'000));
  EXPECT_EQ(daemon.restore("a").after, power_limit(700'000));
}

TEST_F(SettingControllerTest, ASettingEndsWithItsTime) {
  daemon.put("a", power_limit(300'000), seconds(60));
  daemon.pass(seconds(59));
  EXPECT_EQ(fixture.writes, (Writes{"GPU-0 300 W"}));
  daemon.pass(seconds(1));
  EXPECT_EQ(fixture.writes, (Writes{"GPU-0 300 W", "GPU-0 700 W"}));
  EXPECT_EQ(fixture.audit.back().by, "gpuyard");
}

TEST_F(SettingControllerTest, RestoreLeavesDriftedValueAlone) {
  daemon.put("a", power_limit(300'000));
  fixture.power("GPU-0") = {420'000, 420'000};
  EXPECT_EQ(daemon.restore("a").outcome, ChangeOutcome::drifted);
  EXPECT_EQ(fixture.writes, (Writes{"GPU-0 300 W"}));
  EXPECT_TRUE(fixture.disk.empty());
  // The drifted value is the baseline of the next claim.
  daemon.put("a", power_limit(350'000));
  daemon.restore("a");
  EXPECT_EQ(fixture.writes, (Writes{"GPU-0 300 W", "GPU-0 350 W", "GPU-0 420 W"}));
}

TEST_F(SettingControllerTest, FailedPersistPreventsDriverWrite) {
  fixture.disk_fails = Error{Errc::unavailable, "disk full"};
  const ChangeResult failed = daemon.put("a", power_limit(300'000));
  ASSERT_TRUE(failed.error);
  EXPECT_EQ(failed.error->code, Errc::unavailable);
  EXPECT_TRUE(fixture.writes.empty());
  fixture.disk_fails.reset();
  EXPECT_EQ(daemon.put("a", power_limit(300'000)).outcome, ChangeOutcome::applied);
}

TEST_F(SettingControllerTest, RefusedRestoreIsRetried) {
  daemon.put("a", power_limit(300'000));
  fixture.driver_fails = Error{Errc::device_lost, "lost"};
  EXPECT_EQ(daemon.restore("a").outcome, ChangeOutcome::failed);
  fixture.driver_fails.reset();
  daemon.pass(GpuQueue::kReconcileDelay);
  EXPECT_EQ(fixture.writes, (Writes{"GPU-0 300 W", "GPU-0 700 W"}));
  EXPECT_TRUE(fixture.disk.empty());
}

TEST_F(SettingControllerTest, AllOrNoneRollsBack) {
  daemon.put("a", power_limit(500'000));
  daemon.put("a", gpu_clocks(1000, 1000), {}, "GPU-1");
  ChangeRequest request{{"b", true, "r", daemon.loop.now()},
                        {"GPU-0", "GPU-1"},
                        SetValue{gpu_clocks(1200, 1500), {}}};
  request.atomic = true;
  const auto changes = daemon.ask(request);
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[0].outcome, ChangeOutcome::rolled_back);
  EXPECT_EQ(changes[1].outcome, ChangeOutcome::failed);
  EXPECT_EQ(fixture.writes, (Writes{"GPU-0 500 W", "GPU-1 [1000, 1000] MHz",
                                    "GPU-0 [1200, 1500] MHz", "GPU-0 not locked"}));
}

TEST_F(SettingControllerTest, DryRunPlansWithoutWriting) {
  ChangeRequest request{
      {"a", false, "r", daemon.loop.now()}, {"GPU-0"}, SetValue{power_limit(300'000), {}}};
  request.dry_run = true;
  const ChangeResult planned = daemon.ask(request).front();
  EXPECT_EQ(planned.outcome, ChangeOutcome::planned);
  EXPECT_EQ(planned.before, power_limit(700'000));
  EXPECT_EQ(planned.after, power_limit(300'000));
  EXPECT_TRUE(fixture.writes.empty());
  EXPECT_TRUE(fixture.disk.empty());
}

TEST_F(SettingControllerTest, CommandsAreSerializedPerGpu) {
  RecordProperty("contract", "B13");
  daemon.hold_replies = true;
  std::vector<std::string> finished;
  const auto ask = [&](const DeviceId& gpu, std::int64_t milliwatts) {
    daemon.control().submit(
        {{"a", false, "r", daemon.loop.now()}, {gpu}, SetValue{power_limit(milliwatts), {}}},
        [&finished, gpu](const Result<SettingController::Changes>&) { finished.push_back(gpu); });
  };
  ask("GPU-0", 300'000);
  ask("GPU-0", 200'000);
  ask("GPU-1", 400'000);
  daemon.settle();
  EXPECT_EQ(daemon.waiting(), 2U);
  daemon.release_replies();
  EXPECT_EQ(finished.size(), 3U);
  EXPECT_EQ(fixture.power("GPU-0").lowest, 200'000);
  EXPECT_EQ(std::ranges::count(fixture.writes, "GPU-0 300 W"), 1);
}

TEST_F(SettingControllerTest, AFullQueueSaysBusy) {
  RecordProperty("contract", "B18");
  daemon.hold_replies = true;
  std::size_t busy = 0;
  for (std::size_t i = 0; i < GpuQueue::kMaxQueuedChanges + 3; ++i) {
    const auto sent = daemon.control().submit_async(
        {{"a", false, "r", daemon.loop.now()}, {"GPU-0"}, SetValue{power_limit(300'000), {}}});
    ASSERT_TRUE(sent.ok());
    if (sent->front().error) {
      EXPECT_EQ(sent->front().error->code, Errc::busy);
      ++busy;
    }
  }
  EXPECT_EQ(busy, 2U);  // one change is in progress
  daemon.release_replies();
  EXPECT_EQ(fixture.writes.size(), GpuQueue::kMaxQueuedChanges + 1);
}

// Changes under a lease that ends meanwhile.
class AuthorizationExpiryTest : public SettingControllerTest {
 protected:
  ChangeRequest make_request(std::int64_t milliwatts) {
    ChangeRequester requester{"lease:x", false, "r", daemon.loop.now(), "uid 7", "uid 7"};
    ChangeRequest request{requester, {"GPU-0"}, SetValue{power_limit(milliwatts), {}}};
    request.authorization_check = [this](const DeviceId&) -> Result<void> {
      if (held) return {};
      return Error{Errc::conflict, "the lease x is over"};
    };
    return request;
  }

  bool held = true;
};

TEST_F(AuthorizationExpiryTest, QueuedChangeWithLapsedAuthorizationIsRefused) {
  daemon.hold_replies = true;
  for (const int watts : {300, 310, 320}) {
    ASSERT_TRUE(daemon.control().submit_async(make_request(std::int64_t{watts} * 1000)).ok());
  }
  daemon.settle();
  held = false;
  daemon.control().refuse_unauthorized();
  const auto all = daemon.control().operations().all();
  const auto lapsed = [](const Operation& one) {
    return one.result.error && one.result.error->code == Errc::conflict;
  };
  EXPECT_EQ(std::ranges::count_if(all, lapsed), 2);
  daemon.release_replies();
  EXPECT_TRUE(fixture.writes.empty());
}

TEST_F(AuthorizationExpiryTest, AuthorizationIsRecheckedBeforeDriverCall) {
  daemon.hold_replies = true;  // of the read that comes first
  ASSERT_TRUE(daemon.control().submit_async(make_request(300'000)).ok());
  daemon.settle();
  held = false;
  daemon.release_replies();
  EXPECT_TRUE(fixture.writes.empty());
  EXPECT_TRUE(fixture.disk.empty());
  ASSERT_FALSE(fixture.audit.empty());
  EXPECT_EQ(fixture.audit.back().by, "uid 7 under lease x of uid 7");
  EXPECT_EQ(fixture.audit.back().error, "the lease x is over");
}

TEST_F(AuthorizationExpiryTest, RestoreSucceedsAfterAuthorizationLapses) {
  ASSERT_TRUE(daemon.control().submit_async(make_request(300'000)).ok());
  daemon.settle();
  ASSERT_EQ(fixture.power("GPU-0").lowest, 300'000);
  daemon.hold_replies = true;
  ChangeRequest back = make_request(0);
  back.action = Restore{SettingKind::power_limit};
  ASSERT_TRUE(daemon.control().submit_async(back).ok());
  daemon.settle();
  held = false;
  daemon.release_replies();
  EXPECT_EQ(fixture.power("GPU-0").lowest, 700'000);
}

TEST_F(SettingControllerTest, DriverHostExitFailsRunningChange) {
  RecordProperty("contract", "B12");
  daemon.hold_replies = true;
  std::optional<Error> error;
  daemon.control().submit(
      {{"a", false, "r", daemon.loop.now()}, {"GPU-0"}, SetValue{power_limit(300'000), {}}},
      [&](const Result<SettingController::Changes>& changes) { error = changes->front().error; });
  daemon.settle();
  daemon.lose_host();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->message, "GPU management task for GPU 0 terminated");
  daemon.hold_replies = false;
  daemon.start_driver_host();
  EXPECT_TRUE(fixture.writes.empty());
}

TEST_F(SettingControllerTest, UnknownGpuFailsBeforeQueueing) {
  RecordProperty("contract", "B11");
  daemon.put("a", power_limit(300'000), {}, "GPU-9");
  ASSERT_TRUE(daemon.error);
  EXPECT_EQ(daemon.error->code, Errc::not_found);
  EXPECT_TRUE(daemon.control().operations().all().empty());
}

TEST_F(SettingControllerTest, AsyncChangeIsFoundAsOperation) {
  RecordProperty("contract", "B9");
  const auto sent = daemon.control().submit_async(
      {{"a", false, "r", daemon.loop.now()}, {"GPU-0"}, SetValue{power_limit(300'000), {}}});
  ASSERT_TRUE(sent.ok());
  EXPECT_EQ(sent->front().outcome, ChangeOutcome::queued);
  daemon.settle();
  const Operation* operation = daemon.control().operations().find(sent->front().operation_id);
  ASSERT_NE(operation, nullptr);
  EXPECT_EQ(operation->state, OperationState::done);
  EXPECT_EQ(operation->result.outcome, ChangeOutcome::applied);
}

TEST_F(SettingControllerTest, ReloadedDriverGetsClaimedSettings) {
  daemon.put("a", power_limit(300'000));
  daemon.put("a", gpu_clocks(1200, 1500), {}, "GPU-1");
  daemon.lose_host();
  fixture.reload_driver();
  daemon.start_driver_host();
  EXPECT_EQ(fixture.writes, (Writes{"GPU-0 300 W", "GPU-1 [1200, 1500] MHz", "GPU-0 300 W",
                                    "GPU-1 [1200, 1500] MHz"}));
}

TEST_F(SettingControllerTest, SettingExpiredDuringDriverOutageIsNotReapplied) {
  daemon.put("a", power_limit(300'000), seconds(60));
  daemon.lose_host();
  fixture.reload_driver();
  daemon.pass(seconds(61));
  daemon.start_driver_host();
  EXPECT_EQ(fixture.writes, (Writes{"GPU-0 300 W"}));
  EXPECT_TRUE(fixture.disk.empty());
}

TEST_F(SettingControllerTest, ResetRefusesBusyGpuAndReappliesSettings) {
  daemon.put("a", power_limit(300'000));
  ChangeRequest request{{"root", true, "r", daemon.loop.now()}, {"GPU-0"}, Reset{}};
  daemon.resettable = Error{Errc::conflict, "in use"};
  EXPECT_EQ(daemon.ask(request).front().error->code, Errc::conflict);
  daemon.resettable = {};
  EXPECT_EQ(daemon.ask(request).front().outcome, ChangeOutcome::reset);
  EXPECT_EQ(daemon.resets, std::vector<DeviceId>{"GPU-0"});
  EXPECT_EQ(fixture.writes, (Writes{"GPU-0 300 W", "GPU-0 300 W"}));
}

TEST_F(SettingControllerTest, RestoringEverythingIsOneChangeForEachSetting) {
  daemon.put("a", power_limit(300'000));
  daemon.put("a", persistence(true));
  const auto changes = daemon.ask({{"a", false, "r", daemon.loop.now()}, {"GPU-0"}, Restore{}});
  EXPECT_EQ(changes.size(), 2U);
  EXPECT_EQ(fixture.writes, (Writes{"GPU-0 300 W", "GPU-0 on", "GPU-0 700 W", "GPU-0 off"}));
  daemon.ask({{"a", false, "r", daemon.loop.now()}, {"GPU-0"}, Restore{}});
  ASSERT_TRUE(daemon.error);
  EXPECT_EQ(daemon.error->code, Errc::not_found);
}

TEST(SettingController, IsOffUnlessSwitchedOn) {
  ControlFixture fixture = ControlFixture::with_gpus(1);
  Daemon daemon(fixture, ControlPolicy{});
  daemon.start_driver_host();
  daemon.put("a", power_limit(300'000));
  ASSERT_TRUE(daemon.error);
  EXPECT_EQ(daemon.error->code, Errc::denied);
  EXPECT_NE(daemon.error->cause.find("[control]"), std::string::npos);
  EXPECT_TRUE(fixture.writes.empty());
}

TEST(SettingController, RecordedRefusalsAreLimitedPerMinute) {
  ControlFixture fixture = ControlFixture::with_gpus(1);
  Daemon daemon(fixture);
  daemon.start_driver_host();
  for (int i = 0; i < 100; ++i) daemon.put("a", power_limit(300'000), {}, "GPU-9");
  EXPECT_EQ(fixture.audit.size(), static_cast<std::size_t>(AuditTrail::kMaxRefusalsPerMinute));
  daemon.pass(minutes(1));
  daemon.put("a", power_limit(300'000), {}, "GPU-9");
  EXPECT_NE(fixture.audit.back().error->find("70 earlier refusals"), std::string::npos);
}

TEST(SettingController, AuditRefusalLimitIsPerRequester) {
  ControlFixture fixture = ControlFixture::with_gpus(1);
  Daemon daemon(fixture);
  daemon.start_driver_host();
  for (int i = 0; i < 100; ++i) daemon.put("a", power_limit(300'000), {}, "GPU-9");
  daemon.put("b", power_limit(300'000), {}, "GPU-9");
  EXPECT_EQ(fixture.audit.size(), AuditTrail::kMaxRefusalsPerMinute + 1U);
  EXPECT_EQ(fixture.audit.back().by, "b");
  EXPECT_EQ(fixture.audit.back().source, AuditEntry::Source::refused);
}

TEST(SettingController, FailedChangeAuditIsLimitedExceptForAdministrators) {
  ControlFixture fixture = ControlFixture::with_gpus(1);
  Daemon daemon(fixture);
  daemon.start_driver_host();
  const auto fail = [&](const ChangeRequester& requester) {
    for (int i = 0; i < 100; ++i) {
      daemon.ask({requester, {"GPU-0"}, SetValue{power_limit(1'000), {}}});
    }
    return std::exchange(fixture.audit, {}).size();
  };
  const ChangeRequester tenant{"lease:x", false, "r", {}, "uid 7", "uid 7"};
  EXPECT_EQ(fail(tenant), static_cast<std::size_t>(AuditTrail::kMaxRefusalsPerMinute));
  EXPECT_EQ(fail({"uid 7"}), 0U);  // the limit holds with and without a lease
  EXPECT_EQ(fail({"uid 0", true}), 100U);
}

TEST(SettingController, AuditSourceReflectsRequesterRole) {
  ControlFixture fixture = ControlFixture::with_gpus(1);
  Daemon daemon(fixture);
  daemon.start_driver_host();
  using Source = AuditEntry::Source;
  const auto source = [&](const ChangeRequester& requester, const char* gpu = "GPU-0") {
    daemon.ask({requester, {gpu}, SetValue{power_limit(300'000), {}}});
    return fixture.audit.back().source;
  };
  ChangeRequester member{"uid 7"};
  member.member = true;
  EXPECT_EQ(source(member), Source::user);
  EXPECT_EQ(source(member, "GPU-9"), Source::user);
  EXPECT_EQ(source({"uid 8"}), Source::ordinary);
  EXPECT_EQ(source({"uid 8"}, "GPU-9"), Source::refused);
  EXPECT_EQ(source({"uid 0", true}), Source::administrator);
  EXPECT_EQ(source({"uid 0", true}, "GPU-9"), Source::administrator);
  EXPECT_EQ(source({"lease:x", false, "", {}, "uid 7", "uid 7"}), Source::lease);
  EXPECT_EQ(fixture.audit.back().quota_group, "uid 7");
  EXPECT_EQ(source({"lease:x", true, "", {}, "uid 0", "uid 7"}), Source::administrator);
  ChangeRequester stranger{"anonymous over TCP"};
  stranger.over_tcp = true;
  EXPECT_EQ(source(stranger, "GPU-9"), Source::refused_over_tcp);
}

TEST(SettingController, ExpiryIsAuditedAsTheDaemons) {
  ControlFixture fixture = ControlFixture::with_gpus(1);
  Daemon daemon(fixture);
  daemon.start_driver_host();
  daemon.put("uid 7", power_limit(300'000), seconds(1));
  daemon.pass(seconds(2));
  EXPECT_EQ(fixture.audit.back().by, kDaemonOwner);
  EXPECT_EQ(fixture.audit.back().source, AuditEntry::Source::gpuyard);
}

class AuditedActionTest : public ::testing::Test {
 protected:
  // Returns the entries written for this many actions of the requester.
  std::vector<AuditEntry> deeds_of(const ChangeRequester& requester, int count) {
    fixture.audit.clear();
    for (int i = 0; i < count; ++i) daemon.control().record_action(requester, "an action");
    daemon.settle();
    return fixture.audit;
  }

  ControlFixture fixture;
  Daemon daemon{fixture};
};

TEST_F(AuditedActionTest, AuditIsLimitedPerMinuteExceptForAdministrators) {
  EXPECT_EQ(deeds_of({"uid 7"}, 100).size(),
            static_cast<std::size_t>(AuditTrail::kMaxRefusalsPerMinute));
  ChangeRequester member{"uid 8"};
  member.member = true;
  EXPECT_EQ(deeds_of(member, 300).size(),
            static_cast<std::size_t>(AuditTrail::kMaxActionsPerMinute));
  EXPECT_EQ(deeds_of({"uid 0", true}, 300).size(), 300U);
  daemon.pass(minutes(1));
  const auto later = deeds_of({"uid 7"}, 1);
  ASSERT_EQ(later.size(), 1U);
  EXPECT_EQ(later[0].action, "an action (70 earlier entries were not recorded)");
}

TEST_F(AuditedActionTest, RefusalsUseNoActionQuota) {
  const ChangeRequester user{"uid 7"};
  for (int i = 0; i < 100; ++i) {
    daemon.control().record_refusal(user, "an attempt", {Errc::denied, "no"});
  }
  EXPECT_EQ(deeds_of(user, 1).size(), 1U + AuditTrail::kMaxRefusalsPerMinute);
}

TEST_F(AuditedActionTest, FailedAuditWriteIsLoggedOnceAMinute) {
  CapturedLog log;
  fixture.disk_fails = Error{Errc::unavailable, "disk full"};
  for (int minute = 0; minute < 2; ++minute) {
    deeds_of({"uid 0", true}, 1000);
    daemon.pass(minutes(1));
  }
  const auto lines = log.lines();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0], "ERROR audit entry could not be stored: an action by uid 0: done");
  EXPECT_NE(lines[1].find("999 more"), std::string::npos) << lines[1];
}

TEST(Refusals, ManyAddressesShareOneEntryAMinute) {
  ControlFixture fixture;
  Daemon daemon(fixture);
  const auto refuse = [&](const std::string& address) {
    ChangeRequester requester{address};
    requester.over_tcp = true;
    daemon.control().record_refusal(requester, "invalid token", {Errc::denied, "unknown"});
    daemon.settle();
  };
  for (int i = 0; i < 1000; ++i) refuse("192.0.2." + std::to_string(i));
  EXPECT_EQ(fixture.audit.size(), AuditTrail::kMaxAddresses + 1);
  // Local users are counted separately.
  daemon.control().record_refusal({"uid 7"}, "an attempt", {Errc::denied, "no"});
  daemon.settle();
  EXPECT_EQ(fixture.audit.back().by, "uid 7");
}

TEST(Asking, CountsForThePersonBehindTheUid) {
  ChangeRequester requester{"uid 100007"};
  requester.quota_owner = "uid 7";
  EXPECT_EQ(requester.queue_requester(), (Requester{"uid 7", false}));
  EXPECT_EQ((ChangeRequester{"uid 0", true}.queue_requester()), (Requester{"uid 0", true}));
}

}  // namespace
}  // namespace gpuyard::control
