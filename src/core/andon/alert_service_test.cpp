#include "core/andon/alert_service.h"

#include <gtest/gtest.h>

#include "core/andon/alert_service_fixture_for_tests.h"

namespace gpuyard::andon {
namespace {

TEST_F(AlertServiceTest, FiringAndResolvedAreNotifiedOnce) {
  AlertServiceFixture fixture(loop_, disk_);
  fixture.stay(85, 600);
  EXPECT_EQ(fixture.said(), kFired);
  fixture.stay(60, 600);
  EXPECT_EQ(fixture.said(), (Messages{"firing GPU 0 is at 85 C", "resolved GPU 0 is at 85 C"}));
  EXPECT_EQ(disk_.alerts.at(1).state, AlertState::resolved);
}

TEST_F(AlertServiceTest, HigherAlertLevelNotifiesAgainOnce) {
  AlertServiceFixture fixture(loop_, disk_);
  fixture.stay(81, 11);
  fixture.stay(89, 5);
  fixture.stay(95, 5);
  fixture.stay(81, 5);
  fixture.stay(95, 5);
  EXPECT_EQ(fixture.said(), (Messages{"firing GPU 0 is at 81 C", "firing GPU 0 is at 95 C"}));
}

TEST_F(AlertServiceTest, AcknowledgedAlertNotifiesOnlyWhenResolved) {
  AlertServiceFixture fixture(loop_, disk_);
  fixture.stay(81, 11);
  int taken = 0;
  fixture.service.acknowledge(1, {"uid 0", "on it", kWall},
                              [&](const auto& got) { taken += got ? 1 : 0; });
  EXPECT_EQ(taken, 0);
  loop_.run_posted();
  EXPECT_EQ(taken, 1);
  EXPECT_EQ(disk_.alerts.at(1).acknowledged->note, "on it");
  fixture.stay(99, 60);
  EXPECT_EQ(fixture.said(), Messages{"firing GPU 0 is at 81 C"});
  fixture.stay(60, 60);
  EXPECT_EQ(fixture.said().size(), 2U);
}

TEST_F(AlertServiceTest, AcknowledgementCallsSubscriberOnce) {
  AlertServiceFixture fixture(loop_, disk_);
  std::vector<std::string> acknowledged;
  fixture.service.set_on_acknowledged([&](const Alert& alert, const Rule& rule) {
    acknowledged.push_back(rule.name + " " + alert.gpu);
  });
  fixture.stay(81, 11);
  EXPECT_TRUE(acknowledged.empty());
  fixture.service.acknowledge(1, {"uid 0", "", kWall}, [](const auto&) {});
  loop_.run_posted();
  fixture.stay(95, 11);
  EXPECT_EQ(acknowledged, std::vector<std::string>{"hot GPU-0"});
}

TEST_F(AlertServiceTest, AlertsOfARemovedGpuEnd) {
  AlertServiceFixture fixture(loop_, disk_);
  fixture.stay(85, 11);
  fixture.service.remove_gpu("GPU-0", "taken out");
  loop_.run_posted();
  EXPECT_EQ(fixture.said().back(), "resolved GPU 0 is at 85 C");
  EXPECT_EQ(disk_.alerts.at(1).end_reason, "taken out");
  EXPECT_TRUE(fixture.service.engine().firing_alerts().empty());
}

TEST_F(AlertServiceTest, AcknowledgingUnknownOrResolvedAlertFails) {
  AlertServiceFixture fixture(loop_, disk_);
  std::vector<Errc> codes;
  const auto note = [&](const Result<Alert>& got) { codes.push_back(got.error().code); };
  fixture.service.acknowledge(1, {}, note);
  loop_.run_posted();
  fixture.stay(85, 11);
  fixture.stay(60, 60);
  fixture.service.acknowledge(1, {}, note);
  loop_.run_posted();
  EXPECT_EQ(codes, (std::vector{Errc::not_found, Errc::conflict}));
}

TEST_F(AlertServiceTest, SilenceDefersFiringNotificationUntilExpiry) {
  AlertServiceFixture fixture(loop_, disk_);
  fixture.service.silence({.id = "s",
                           .rule = "hot",
                           .by = "uid 0",
                           .comment = "",
                           .since = loop_.wall(),
                           .until = loop_.wall() + std::chrono::minutes(5)},
                          [](const auto&) {});
  fixture.stay(85, 200);
  EXPECT_TRUE(fixture.said().empty());
  EXPECT_EQ(fixture.service.engine().firing_alerts().size(), 1U);
  fixture.stay(85, 200);
  EXPECT_EQ(fixture.said(), kFired);
  EXPECT_TRUE(disk_.silences.empty());
}

TEST_F(AlertServiceTest, SomeSilencesAreReservedForAdministrators) {
  AlertServiceFixture fixture(loop_, disk_);
  const WallTime until = loop_.wall() + std::chrono::hours(1);
  std::size_t put = 0;
  const auto silence = [&](const Requester& by) {
    fixture.service.silence(
        {.id = std::to_string(put), .by = "", .comment = "", .until = until},
        [&](const auto& done) { put += done.ok() ? 1 : 0; }, by);
    loop_.run_posted();
  };
  for (std::size_t i = 0; i < SilenceTable::kMaxSilences; ++i) silence({"uid 1001"});
  EXPECT_EQ(put, SilenceTable::kMaxSilences - SilenceTable::kReservedForAdmins);
  for (std::size_t i = 0; i < SilenceTable::kMaxSilences; ++i) silence({"uid 0", true});
  EXPECT_EQ(put, SilenceTable::kMaxSilences);
}

TEST_F(AlertServiceTest, FullShareOfTheDiskQueueRefusesChanges) {
  AlertServiceFixture fixture(loop_, disk_);
  fixture.stay(85, 11);
  const int saves = disk_.saves;
  disk_.crowded = true;
  const Requester user{"uid 1001"};
  std::vector<Errc> codes;
  const auto note = [&](const auto& got) { codes.push_back(got.error().code); };
  fixture.service.acknowledge(1, {"uid 1001", "", kWall}, note, user);
  fixture.service.silence({.id = "s", .by = "uid 1001", .comment = ""}, note, user);
  fixture.service.unsilence("s", note, user);
  loop_.run_posted();
  EXPECT_EQ(codes, std::vector(3, Errc::busy));
  EXPECT_EQ(disk_.saves, saves);
  EXPECT_FALSE(fixture.service.storage_error());
  EXPECT_FALSE(fixture.service.find(1)->acknowledged);
  EXPECT_EQ(fixture.service.silences().size(), 0U);
}

TEST_F(AlertServiceTest, SilencedAlertResolvesWithoutNotification) {
  AlertServiceFixture fixture(loop_, disk_);
  fixture.service.silence({.id = "s",
                           .by = "uid 0",
                           .comment = "",
                           .since = loop_.wall(),
                           .until = loop_.wall() + std::chrono::hours(5)},
                          [](const auto&) {});
  fixture.stay(85, 60);
  fixture.stay(60, 60);
  EXPECT_TRUE(fixture.said().empty());
  EXPECT_EQ(disk_.alerts.at(1).state, AlertState::resolved);
}

TEST_F(AlertServiceTest, ReloadNotifiesNewSinkOfFiringAlert) {
  AlertServiceFixture fixture(loop_, disk_);
  fixture.stay(85, 11);
  fixture.messenger.sinks = {"log", "ops"};
  fixture.stay(85, 11);
  EXPECT_EQ(fixture.said(), kFired);
  fixture.service.replace({hot_rule()});
  loop_.run_posted();
  EXPECT_EQ(fixture.said(), (Messages{"firing GPU 0 is at 85 C", "ops: firing GPU 0 is at 85 C"}));
}

TEST_F(AlertServiceTest, ResolvedGoesOnlyToNotifiedSinks) {
  AlertServiceFixture fixture(loop_, disk_);
  fixture.messenger.sinks = {"ops"};
  fixture.stay(85, 11);
  fixture.messenger.sinks = {"others"};
  fixture.service.replace({});
  loop_.run_posted();
  EXPECT_EQ(fixture.said(),
            (Messages{"ops: firing GPU 0 is at 85 C", "ops: resolved GPU 0 is at 85 C"}));
}

TEST_F(AlertServiceTest, CommandRunsOncePerTransitionWithNotifyOff) {
  Rule rule = hot_rule();
  rule.command = {"/bin/true"};
  rule.notify = false;
  AlertServiceFixture fixture(loop_, disk_, {rule});
  fixture.stay(81, 11);
  fixture.stay(99, 11);
  fixture.stay(60, 60);
  EXPECT_EQ(fixture.said(), (Messages{"command:hot: firing GPU 0 is at 81 C",
                                      "command:hot: resolved GPU 0 is at 99 C"}));
}

TEST_F(AlertServiceTest, QuarantineEndsWithAlertOrAcknowledgement) {
  AlertServiceFixture fixture(loop_, disk_, {quarantining()});
  fixture.stay(85, 10);
  EXPECT_FALSE(fixture.service.quarantine("GPU-0"));
  fixture.stay(85, 1);
  ASSERT_TRUE(fixture.service.quarantine("GPU-0"));
  EXPECT_EQ(fixture.service.quarantine("GPU-0")->text,
            "quarantined by alert 1 (hot): GPU 0 is at 85 C");
  fixture.stay(60, 20);
  EXPECT_TRUE(fixture.service.quarantine("GPU-0"));
  fixture.stay(60, 1);
  EXPECT_FALSE(fixture.service.quarantine("GPU-0"));
  fixture.stay(85, 11);
  EXPECT_TRUE(fixture.service.quarantine("GPU-0"));
  fixture.service.acknowledge(2, {}, [](const auto&) {});
  EXPECT_FALSE(fixture.service.quarantine("GPU-0"));
}

}  // namespace

// The service and its disk, over several runs of a daemon.
namespace {

TEST_F(AlertServiceTest, NotificationWaitsForCommit) {
  AlertServiceFixture fixture(loop_, disk_);
  fixture.stay(85, 10);
  loop_.advance(std::chrono::seconds(1));
  fixture.service.tick(at_temperature(85));
  EXPECT_TRUE(fixture.said().empty());
  loop_.run_posted();
  EXPECT_EQ(disk_.outgoing.size(), 1U);
  EXPECT_EQ(fixture.said(), kFired);
}

TEST_F(AlertServiceTest, RestartResendsOnlyUndeliveredMessages) {
  {
    AlertServiceFixture fixture(loop_, disk_);
    fixture.stay(85, 11);
    fixture.service.mark_delivered(fixture.messenger.said[0].id);
    loop_.run_posted();
  }
  {
    AlertServiceFixture fixture(loop_, disk_);
    fixture.stay(85, 60);
    EXPECT_TRUE(fixture.said().empty());
    fixture.stay(60, 60);
    EXPECT_EQ(fixture.said(), Messages{"resolved GPU 0 is at 85 C"});
  }
  AlertServiceFixture fixture(loop_, disk_);  // the sink has not accepted the last message
  EXPECT_EQ(fixture.said(), Messages{"resolved GPU 0 is at 85 C"});
  fixture.stay(85, 11);
  EXPECT_EQ(fixture.service.engine().firing_alerts().at(0).number, 2U);
}

TEST_F(AlertServiceTest, CrashBeforeCommitFiresAgainAfterRestart) {
  {
    AlertServiceFixture fixture(loop_, disk_);
    fixture.stay(85, 10);
    disk_.failing = true;  // what it writes now is lost with it
    loop_.advance(std::chrono::seconds(1));
    fixture.service.tick(at_temperature(85));
  }
  loop_.run_posted();
  disk_.failing = false;
  AlertServiceFixture fixture(loop_, disk_);
  fixture.stay(85, 11);
  EXPECT_EQ(fixture.said(), kFired);
}

TEST_F(AlertServiceTest, FailedSaveStillNotifiesAndIsRetried) {
  AlertServiceFixture fixture(loop_, disk_);
  disk_.failing = true;
  fixture.stay(85, 60);
  EXPECT_EQ(fixture.said(), kFired);
  EXPECT_TRUE(fixture.service.storage_error().has_value());
  fixture.stay(60, 60);
  EXPECT_EQ(fixture.said().size(), 2U);
  disk_.failing = false;
  fixture.stay(60, 10);
  EXPECT_FALSE(fixture.service.storage_error().has_value());
  EXPECT_EQ(disk_.alerts.at(1).state, AlertState::resolved);
  EXPECT_EQ(disk_.outgoing.size(), 2U);
}

TEST_F(AlertServiceTest, UnreadableStorageDelaysAlertsOnlyBriefly) {
  disk_.failing = true;
  AlertServiceFixture fixture(loop_, disk_);
  fixture.stay(85, 40);
  EXPECT_EQ(fixture.said(), kFired);
}

TEST_F(AlertServiceTest, SilencesSurviveARestart) {
  {
    AlertServiceFixture fixture(loop_, disk_);
    fixture.service.silence({.id = "s",
                             .by = "uid 0",
                             .comment = "",
                             .since = loop_.wall(),
                             .until = loop_.wall() + std::chrono::minutes(5)},
                            [](const auto&) {});
    loop_.run_posted();
  }
  AlertServiceFixture fixture(loop_, disk_);
  fixture.stay(85, 200);
  EXPECT_TRUE(fixture.said().empty());
  fixture.stay(85, 200);
  EXPECT_EQ(fixture.said(), kFired);
}

TEST_F(AlertServiceTest, NeverAnsweringDiskDelaysNoAlert) {
  disk_.hanging = true;
  AlertServiceFixture fixture(loop_, disk_);
  fixture.stay(85, 40);
  EXPECT_EQ(fixture.said(), kFired);
  EXPECT_TRUE(fixture.service.storage_error().has_value());
  EXPECT_TRUE(fixture.service.is_open());
  EXPECT_TRUE(fixture.service.is_loading()) << "an empty list would be wrong";
}

TEST_F(AlertServiceTest, DiskThatStopsAnsweringDelaysNoAlert) {
  AlertServiceFixture fixture(loop_, disk_);
  disk_.hanging = true;
  fixture.stay(85, 11);
  EXPECT_TRUE(fixture.said().empty());
  fixture.stay(85, 6);
  EXPECT_EQ(fixture.said(), kFired);
  EXPECT_TRUE(fixture.service.storage_error().has_value());
}

TEST_F(AlertServiceTest, LateLoadMergesSavedAlertsAndSilences) {
  {
    AlertServiceFixture fixture(loop_, disk_);
    fixture.stay(85, 11);  // no sink accepts a message
    fixture.service.silence({.id = "s",
                             .rule = "cold",
                             .by = "uid 0",
                             .comment = "",
                             .since = loop_.wall(),
                             .until = loop_.wall() + std::chrono::hours(1)},
                            [](const auto&) {});
    loop_.run_posted();
  }
  disk_.failing = true;
  AlertServiceFixture fixture(loop_, disk_);
  fixture.stay(85, 30);
  EXPECT_EQ(fixture.said(), kFired);
  const std::uint64_t anew = fixture.service.engine().firing_alerts().at(0).number;
  EXPECT_GT(anew, 1U);
  disk_.failing = false;
  fixture.stay(85, 10);
  EXPECT_EQ(fixture.said().size(), 2U);  // messages that were not accepted before are sent now
  EXPECT_EQ(disk_.alerts.at(1).state, AlertState::resolved);
  EXPECT_EQ(disk_.alerts.at(anew).state, AlertState::firing);
  EXPECT_EQ(disk_.silences.size(), 1U);
  EXPECT_EQ(disk_.outgoing.size(), 2U);
}

TEST_F(AlertServiceTest, LateLoadRestoresQuarantineAndResolvesRemovedRules) {
  Rule cold = hot_rule();
  cold.name = "cold";
  {
    AlertServiceFixture fixture(loop_, disk_, {quarantining(), cold});
    fixture.stay(85, 11);
    for (const OutboxMessage& one : fixture.messenger.said) fixture.service.mark_delivered(one.id);
    loop_.run_posted();
  }
  disk_.failing = true;
  AlertServiceFixture fixture(loop_, disk_, {quarantining()});
  fixture.stay({}, 12);
  ASSERT_TRUE(fixture.service.is_open());
  EXPECT_FALSE(fixture.service.is_loading()) << "a read that failed is not waited for";
  EXPECT_FALSE(fixture.service.quarantine("GPU-0"));
  disk_.failing = false;
  fixture.stay({}, 10);
  EXPECT_TRUE(fixture.service.quarantine("GPU-0"));
  EXPECT_EQ(fixture.said(), Messages{"resolved GPU 0 is at 85 C"});
  ASSERT_EQ(fixture.service.engine().firing_alerts().size(), 1U);
  EXPECT_EQ(fixture.service.engine().firing_alerts()[0].rule, "hot");
}

TEST_F(AlertServiceTest, RestartNotifiesNewSinkOfFiringAlert) {
  {
    AlertServiceFixture fixture(loop_, disk_);
    fixture.stay(85, 11);
    EXPECT_EQ(fixture.said(), kFired);
  }
  AlertServiceFixture next(loop_, disk_, {hot_rule()},
                           {"log", "ops"});  // the log has not accepted its message yet
  EXPECT_EQ(next.said(), (Messages{"firing GPU 0 is at 85 C", "ops: firing GPU 0 is at 85 C"}));
}

TEST_F(AlertServiceTest, OutboxPreservesMessageOrder) {
  AlertServiceFixture fixture(loop_, disk_);
  fixture.stay(85, 11);
  fixture.stay(60, 60);
  std::map<std::uint64_t, std::string> by_order;
  for (const auto& [id, one] : disk_.outgoing) by_order[one.order] = one.body;
  ASSERT_EQ(by_order.size(), 2U);
  EXPECT_TRUE(by_order.begin()->second.starts_with("firing"));
}

TEST_F(AlertServiceTest, RestartRestoresQuarantineBeforeFirstReading) {
  {
    AlertServiceFixture fixture(loop_, disk_, {quarantining()});
    fixture.stay(85, 11);
  }
  AlertServiceFixture fixture(loop_, disk_, {quarantining()});
  EXPECT_TRUE(fixture.service.quarantine("GPU-0"));
}

TEST_F(AlertServiceTest, RestartResolvesAlertOfRemovedRule) {
  {
    AlertServiceFixture fixture(loop_, disk_);
    fixture.stay(85, 11);
    fixture.service.mark_delivered(fixture.messenger.said[0].id);
    loop_.run_posted();
  }
  AlertServiceFixture fixture(loop_, disk_, {});
  EXPECT_EQ(fixture.said(), Messages{"resolved GPU 0 is at 85 C"});
  EXPECT_EQ(disk_.alerts.at(1).end_reason, "its rule was removed");
}

}  // namespace
}  // namespace gpuyard::andon
