// The start and the stop of control: the state that outlives a daemon, and requests that wait for
// it.
#include <optional>

#include <gtest/gtest.h>

#include "core/control/control_fixture_for_tests.h"

namespace gpuyard::control {
namespace {

using std::chrono::seconds;
using Writes = std::vector<std::string>;

TEST(SettingController, SettingsOutliveTheDaemon) {
  ControlFixture fixture = ControlFixture::with_gpus(1);
  {
    Daemon first(fixture);
    first.start_driver_host();
    first.put("a", power_limit(300'000));
    first.stop();
  }
  Daemon second(fixture);
  second.start_driver_host();
  EXPECT_EQ(fixture.writes, (Writes{"GPU-0 300 W"}));
  second.restore("a");
  EXPECT_EQ(fixture.writes, (Writes{"GPU-0 300 W", "GPU-0 700 W"}));
}

// The board keeps the mode, so what a restore gives back is the mode before our change.
TEST(SettingController, EccBaselineOutlivesReboot) {
  ControlFixture fixture = ControlFixture::with_gpus(1);
  {
    Daemon before(fixture);
    before.start_driver_host();
    before.put("a", ecc(false));
  }
  Daemon after(fixture, {true, false}, "boot-2");
  after.start_driver_host();
  EXPECT_EQ(fixture.writes, (Writes{"GPU-0 off"}));
  EXPECT_EQ(after.restore("a", SettingKind::ecc).outcome, ChangeOutcome::restored);
  EXPECT_EQ(fixture.writes, (Writes{"GPU-0 off", "GPU-0 on"}));
}

// The board keeps the mode over a power cut, so the record must be there after one, too.
TEST(SettingController, OnlyEccIntentIsDurable) {
  ControlFixture fixture = ControlFixture::with_gpus(1);
  for (const bool has_journal : {false, true}) {
    fixture.has_journal = has_journal;
    Daemon daemon(fixture);
    daemon.start_driver_host();
    daemon.put("a", ecc(has_journal));
    EXPECT_EQ(daemon.durable_saves, 1U);
    daemon.put("a", power_limit(300'000));
    EXPECT_EQ(daemon.durable_saves, 1U);
  }
}

TEST(SettingController, StopCompletesQueueAndRefusesNewChanges) {
  RecordProperty("contract", "B8");
  ControlFixture fixture = ControlFixture::with_gpus(1);
  Daemon daemon(fixture);
  daemon.start_driver_host();
  daemon.hold_replies = true;
  for (const std::int64_t milliwatts : {300'000, 200'000}) {
    const auto sent = daemon.control().submit_async(
        {{"a", false, "r", daemon.loop.now()}, {"GPU-0"}, SetValue{power_limit(milliwatts), {}}});
    ASSERT_TRUE(sent.ok());
  }
  daemon.settle();
  bool done = false;
  daemon.control().stop([&] { done = true; });
  daemon.pass(std::chrono::milliseconds(300));
  EXPECT_FALSE(done);
  daemon.put("a", power_limit(400'000));
  daemon.release_replies();
  EXPECT_TRUE(done);
  EXPECT_EQ(fixture.writes, (Writes{"GPU-0 300 W", "GPU-0 200 W"}));
}

TEST(SettingController, StopAbandonsHungGpuAfterGrace) {
  RecordProperty("contract", "B8");
  ControlFixture fixture = ControlFixture::with_gpus(1);
  Daemon daemon(fixture);
  daemon.start_driver_host();
  daemon.hold_replies = true;
  std::optional<Error> error;
  daemon.control().submit(
      {{"a", false, "r", daemon.loop.now()}, {"GPU-0"}, SetValue{power_limit(300'000), {}}},
      [&](const Result<SettingController::Changes>& changes) { error = changes->front().error; });
  daemon.settle();
  bool done = false;
  daemon.control().stop([&] { done = true; });
  daemon.pass(SettingController::kShutdownGrace);
  EXPECT_TRUE(done);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->message, "GPU management task for GPU 0 terminated");
}

TEST(SettingController, RestoreOnStopLastsUntilNextStart) {
  ControlFixture fixture = ControlFixture::with_gpus(1);
  {
    Daemon first(fixture, {true, true});
    first.start_driver_host();
    first.put("a", power_limit(300'000));
    first.stop();
  }
  EXPECT_EQ(fixture.power("GPU-0").lowest, 700'000);
  Daemon second(fixture);
  second.start_driver_host();
  EXPECT_EQ(fixture.writes, (Writes{"GPU-0 300 W", "GPU-0 700 W", "GPU-0 300 W"}));
}

TEST(SettingController, ExpiryCountsDaemonDowntime) {
  ControlFixture fixture = ControlFixture::with_gpus(1);
  {
    Daemon first(fixture);
    first.start_driver_host();
    first.put("a", power_limit(300'000), seconds(60));
  }
  Daemon second(fixture);
  second.loop.advance(seconds(61));
  second.start_driver_host();
  EXPECT_EQ(fixture.writes, (Writes{"GPU-0 300 W", "GPU-0 700 W"}));
  EXPECT_TRUE(fixture.disk.empty());
}

TEST(SettingController, AnotherBootTakesANewBaseline) {
  ControlFixture fixture = ControlFixture::with_gpus(1);
  {
    Daemon first(fixture);
    first.start_driver_host();
    first.put("a", power_limit(300'000));
  }
  fixture.power("GPU-0") = {600'000, 600'000};
  Daemon second(fixture, {true, false}, "boot-2");
  second.start_driver_host();
  second.restore("a");
  EXPECT_EQ(fixture.writes, (Writes{"GPU-0 300 W", "GPU-0 300 W", "GPU-0 600 W"}));
}

TEST(SettingController, ChangesAreRefusedUntilLoadSucceeds) {
  ControlFixture fixture = ControlFixture::with_gpus(1);
  fixture.disk_reads = false;
  Daemon daemon(fixture);
  daemon.start_driver_host();
  daemon.put("a", power_limit(300'000));
  ASSERT_TRUE(daemon.error);
  EXPECT_EQ(daemon.error->code, Errc::unavailable);
  fixture.disk_reads = true;
  daemon.pass(seconds(5));
  EXPECT_EQ(daemon.put("a", power_limit(300'000)).outcome, ChangeOutcome::applied);
}

// A request that comes before the stored state has been loaded.
struct Early {
  Early() {
    fixture.disk_is_slow = true;
    daemon.emplace(fixture);
    daemon->start_driver_host();
    daemon->control().submit(
        {{"a", false, "r", daemon->loop.now()}, {"GPU-0"}, SetValue{power_limit(300'000)}},
        [this](const Result<SettingController::Changes>& changes) { result = changes; });
    daemon->settle();
  }

  ControlFixture fixture = ControlFixture::with_gpus(1);
  std::optional<Daemon> daemon;
  std::optional<Result<SettingController::Changes>> result;
};

TEST(SettingController, EarlyRequestWaitsForLoad) {
  Early early;
  EXPECT_FALSE(early.result);
  early.fixture.read_now();
  early.daemon->settle();
  ASSERT_TRUE(early.result && *early.result);
  EXPECT_EQ((**early.result)[0].outcome, ChangeOutcome::applied);
  EXPECT_EQ(early.fixture.writes, Writes{"GPU-0 300 W"});
}

TEST(SettingController, EarlyRequestTimesOutOnHungLoad) {
  Early early;
  early.daemon->pass(seconds(4));
  EXPECT_FALSE(early.result);
  early.daemon->pass(seconds(1));
  ASSERT_TRUE(early.result && !*early.result);
  EXPECT_EQ(early.result->error().code, Errc::unavailable);
  early.daemon->put("a", power_limit(300'000));
  EXPECT_TRUE(early.daemon->error);
}

TEST(SettingController, StopFailsRequestsWaitingForLoad) {
  Early early;
  early.daemon->stop();
  ASSERT_TRUE(early.result);
  EXPECT_FALSE(*early.result);
  EXPECT_TRUE(early.fixture.writes.empty());
}

}  // namespace
}  // namespace gpuyard::control
