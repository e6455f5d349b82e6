#include "core/andon/alert_service.h"

#include <gtest/gtest.h>

#include "core/andon/alert_service_fixture_for_tests.h"

namespace gpuyard::andon {
namespace {

TEST_F(AlertServiceTest, FiringAndResolvedAreNotifiedOnce) {
  AlertServiceFixture life(loop_, disk_);
  life.stay(85, 600);
  EXPECT_EQ(life.said(), kFired);
  life.stay(60, 600);
  EXPECT_EQ(life.said(), (Said{"firing GPU 0 is at 85 C", "resolved GPU 0 is at 85 C"}));
  EXPECT_EQ(disk_.alerts.at(1).state, AlertState::resolved);
}

TEST_F(AlertServiceTest, HigherAlertLevelNotifiesAgainOnce) {
  AlertServiceFixture life(loop_, disk_);
  life.stay(81, 11);
  life.stay(89, 5);
  life.stay(95, 5);
  life.stay(81, 5);
  life.stay(95, 5);
  EXPECT_EQ(life.said(), (Said{"firing GPU 0 is at 81 C", "firing GPU 0 is at 95 C"}));
}

TEST_F(AlertServiceTest, AcknowledgedAlertNotifiesOnlyWhenResolved) {
  AlertServiceFixture life(loop_, disk_);
  life.stay(81, 11);
  int taken = 0;
  life.service.acknowledge(1, {"uid 0", "on it", kWall},
                           [&](const auto& got) { taken += got ? 1 : 0; });
  EXPECT_EQ(taken, 0);
  loop_.run_posted();
  EXPECT_EQ(taken, 1);
  EXPECT_EQ(disk_.alerts.at(1).acknowledged->note, "on it");
  life.stay(99, 60);
  EXPECT_EQ(life.said(), Said{"firing GPU 0 is at 81 C"});
  life.stay(60, 60);
  EXPECT_EQ(life.said().size(), 2U);
}

TEST_F(AlertServiceTest, AcknowledgementCallsSubscriberOnce) {
  AlertServiceFixture life(loop_, disk_);
  std::vector<std::string> acknowledged;
  life.service.set_on_acknowledged([&](const Alert& alert, const Rule& rule) {
    acknowledged.push_back(rule.name + " " + alert.gpu);
  });
  life.stay(81, 11);
  EXPECT_TRUE(acknowledged.empty());
  life.service.acknowledge(1, {"uid 0", "", kWall}, [](const auto&) {});
  loop_.run_posted();
  life.stay(95, 11);
  EXPECT_EQ(acknowledged, std::vector<std::string>{"hot GPU-0"});
}

TEST_F(AlertServiceTest, AlertsOfARemovedGpuEnd) {
  AlertServiceFixture life(loop_, disk_);
  life.stay(85, 11);
  life.service.remove_gpu("GPU-0", "taken out");
  loop_.run_posted();
  EXPECT_EQ(life.said().back(), "resolved GPU 0 is at 85 C");
  EXPECT_EQ(disk_.alerts.at(1).end_reason, "taken out");
  EXPECT_TRUE(life.service.engine().firing_alerts().empty());
}

TEST_F(AlertServiceTest, AcknowledgingUnknownOrResolvedAlertFails) {
  AlertServiceFixture life(loop_, disk_);
  std::vector<Errc> codes;
  const auto note = [&](const Result<Alert>& got) { codes.push_back(got.error().code); };
  life.service.acknowledge(1, {}, note);
  loop_.run_posted();
  life.stay(85, 11);
  life.stay(60, 60);
  life.service.acknowledge(1, {}, note);
  loop_.run_posted();
  EXPECT_EQ(codes, (std::vector{Errc::not_found, Errc::conflict}));
}

TEST_F(AlertServiceTest, SilenceDefersFiringNotificationUntilExpiry) {
  AlertServiceFixture life(loop_, disk_);
  life.service.silence({.id = "s",
                        .rule = "hot",
                        .by = "uid 0",
                        .comment = "",
                        .since = loop_.wall(),
                        .until = loop_.wall() + std::chrono::minutes(5)},
                       [](const auto&) {});
  life.stay(85, 200);
  EXPECT_TRUE(life.said().empty());
  EXPECT_EQ(life.service.engine().firing_alerts().size(), 1U);
  life.stay(85, 200);
  EXPECT_EQ(life.said(), kFired);
  EXPECT_TRUE(disk_.silences.empty());
}

TEST_F(AlertServiceTest, SomeSilencesAreReservedForAdministrators) {
  AlertServiceFixture life(loop_, disk_);
  const WallTime until = loop_.wall() + std::chrono::hours(1);
  std::size_t put = 0;
  const auto silence = [&](const Requester& by) {
    life.service.silence(
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
  AlertServiceFixture life(loop_, disk_);
  life.stay(85, 11);
  const int saves = disk_.saves;
  disk_.crowded = true;
  const Requester user{"uid 1001"};
  std::vector<Errc> codes;
  const auto note = [&](const auto& got) { codes.push_back(got.error().code); };
  life.service.acknowledge(1, {"uid 1001", "", kWall}, note, user);
  life.service.silence({.id = "s", .by = "uid 1001", .comment = ""}, note, user);
  life.service.unsilence("s", note, user);
  loop_.run_posted();
  EXPECT_EQ(codes, std::vector(3, Errc::busy));
  EXPECT_EQ(disk_.saves, saves);
  EXPECT_FALSE(life.service.storage_error());
  EXPECT_FALSE(life.service.find(1)->acknowledged);
  EXPECT_EQ(life.service.silences().size(), 0U);
}

TEST_F(AlertServiceTest, SilencedAlertResolvesWithoutNotification) {
  AlertServiceFixture life(loop_, disk_);
  life.service.silence({.id = "s",
                        .by = "uid 0",
                        .comment = "",
                        .since = loop_.wall(),
                        .until = loop_.wall() + std::chrono::hours(5)},
                       [](const auto&) {});
  life.stay(85, 60);
  life.stay(60, 60);
  EXPECT_TRUE(life.said().empty());
  EXPECT_EQ(disk_.alerts.at(1).state, AlertState::resolved);
}

TEST_F(AlertServiceTest, ReloadNotifiesNewSinkOfFiringAlert) {
  AlertServiceFixture life(loop_, disk_);
  life.stay(85, 11);
  life.messenger.sinks = {"log", "ops"};
  life.stay(85, 11);
  EXPECT_EQ(life.said(), kFired);
  life.service.replace({hot_rule()});
  loop_.run_posted();
  EXPECT_EQ(life.said(), (Said{"firing GPU 0 is at 85 C", "ops: firing GPU 0 is at 85 C"}));
}

TEST_F(AlertServiceTest, ResolvedGoesOnlyToNotifiedSinks) {
  AlertServiceFixture life(loop_, disk_);
  life.messenger.sinks = {"ops"};
  life.stay(85, 11);
  life.messenger.sinks = {"others"};
  life.service.replace({});
  loop_.run_posted();
  EXPECT_EQ(life.said(), (Said{"ops: firing GPU 0 is at 85 C", "ops: resolved GPU 0 is at 85 C"}));
}

TEST_F(AlertServiceTest, CommandRunsOncePerTransitionWithNotifyOff) {
  Rule rule = hot_rule();
  rule.command = {"/bin/true"};
  rule.notify = false;
  AlertServiceFixture life(loop_, disk_, {rule});
  life.stay(81, 11);
  life.stay(99, 11);
  life.stay(60, 60);
  EXPECT_EQ(life.said(), (Said{"command:hot: firing GPU 0 is at 81 C",
                               "command:hot: resolved GPU 0 is at 99 C"}));
}

TEST_F(AlertServiceTest, AQuarantineLastsUntilTheAlertIsOverOrAcknowledged) {
  AlertServiceFixture life(loop_, disk_, {quarantining()});
  life.stay(85, 10);
  EXPECT_FALSE(life.service.quarantine("GPU-0"));
  life.stay(85, 1);
  ASSERT_TRUE(life.service.quarantine("GPU-0"));
  EXPECT_EQ(life.service.quarantine("GPU-0")->text,
            "quarantined by alert 1 (hot): GPU 0 is at 85 C");
  life.stay(60, 20);
  EXPECT_TRUE(life.service.quarantine("GPU-0"));
  life.stay(60, 1);
  EXPECT_FALSE(life.service.quarantine("GPU-0"));
  life.stay(85, 11);
  EXPECT_TRUE(life.service.quarantine("GPU-0"));
  life.service.acknowledge(2, {}, [](const auto&) {});
  EXPECT_FALSE(life.service.quarantine("GPU-0"));
}

}  // namespace

// The service and its disk, over several runs of a daemon.
namespace {

TEST_F(AlertServiceTest, NotificationWaitsForCommit) {
  AlertServiceFixture life(loop_, disk_);
  life.stay(85, 10);
  loop_.advance(std::chrono::seconds(1));
  life.service.tick(at_temperature(85));
  EXPECT_TRUE(life.said().empty());
  loop_.run_posted();
  EXPECT_EQ(disk_.outgoing.size(), 1U);
  EXPECT_EQ(life.said(), kFired);
}

TEST_F(AlertServiceTest, RestartResendsOnlyUndeliveredMessages) {
  {
    AlertServiceFixture life(loop_, disk_);
    life.stay(85, 11);
    life.service.mark_delivered(life.messenger.said[0].id);
    loop_.run_posted();
  }
  {
    AlertServiceFixture life(loop_, disk_);
    life.stay(85, 60);
    EXPECT_TRUE(life.said().empty());
    life.stay(60, 60);
    EXPECT_EQ(life.said(), Said{"resolved GPU 0 is at 85 C"});
  }
  AlertServiceFixture life(loop_, disk_);  // the sink has not accepted the last message
  EXPECT_EQ(life.said(), Said{"resolved GPU 0 is at 85 C"});
  life.stay(85, 11);
  EXPECT_EQ(life.service.engine().firing_alerts().at(0).number, 2U);
}

TEST_F(AlertServiceTest, CrashBeforeCommitFiresAgainAfterRestart) {
  {
    AlertServiceFixture life(loop_, disk_);
    life.stay(85, 10);
    disk_.failing = true;  // what it writes now is lost with it
    loop_.advance(std::chrono::seconds(1));
    life.service.tick(at_temperature(85));
  }
  loop_.run_posted();
  disk_.failing = false;
  AlertServiceFixture life(loop_, disk_);
  life.stay(85, 11);
  EXPECT_EQ(life.said(), kFired);
}

TEST_F(AlertServiceTest, FailedSaveStillNotifiesAndIsRetried) {
  AlertServiceFixture life(loop_, disk_);
  disk_.failing = true;
  life.stay(85, 60);
  EXPECT_EQ(life.said(), kFired);
  EXPECT_TRUE(life.service.storage_error().has_value());
  life.stay(60, 60);
  EXPECT_EQ(life.said().size(), 2U);
  disk_.failing = false;
  life.stay(60, 10);
  EXPECT_FALSE(life.service.storage_error().has_value());
  EXPECT_EQ(disk_.alerts.at(1).state, AlertState::resolved);
  EXPECT_EQ(disk_.outgoing.size(), 2U);
}

TEST_F(AlertServiceTest, UnreadableStorageDelaysAlertsOnlyBriefly) {
  disk_.failing = true;
  AlertServiceFixture life(loop_, disk_);
  life.stay(85, 40);
  EXPECT_EQ(life.said(), kFired);
}

TEST_F(AlertServiceTest, SilencesSurviveARestart) {
  {
    AlertServiceFixture life(loop_, disk_);
    life.service.silence({.id = "s",
                          .by = "uid 0",
                          .comment = "",
                          .since = loop_.wall(),
                          .until = loop_.wall() + std::chrono::minutes(5)},
                         [](const auto&) {});
    loop_.run_posted();
  }
  AlertServiceFixture life(loop_, disk_);
  life.stay(85, 200);
  EXPECT_TRUE(life.said().empty());
  life.stay(85, 200);
  EXPECT_EQ(life.said(), kFired);
}

TEST_F(AlertServiceTest, ADiskThatNeverAnswersHoldsUpNoAlert) {
  disk_.hanging = true;
  AlertServiceFixture life(loop_, disk_);
  life.stay(85, 40);
  EXPECT_EQ(life.said(), kFired);
  EXPECT_TRUE(life.service.storage_error().has_value());
  EXPECT_TRUE(life.service.is_open());
  EXPECT_TRUE(life.service.is_loading()) << "an empty list would be wrong";
}

TEST_F(AlertServiceTest, ADiskThatStopsAnsweringHoldsUpNoAlert) {
  AlertServiceFixture life(loop_, disk_);
  disk_.hanging = true;
  life.stay(85, 11);
  EXPECT_TRUE(life.said().empty());
  life.stay(85, 6);
  EXPECT_EQ(life.said(), kFired);
  EXPECT_TRUE(life.service.storage_error().has_value());
}

TEST_F(AlertServiceTest, LateLoadMergesSavedAlertsAndSilences) {
  {
    AlertServiceFixture life(loop_, disk_);
    life.stay(85, 11);  // no sink accepts a message
    life.service.silence({.id = "s",
                          .rule = "cold",
                          .by = "uid 0",
                          .comment = "",
                          .since = loop_.wall(),
                          .until = loop_.wall() + std::chrono::hours(1)},
                         [](const auto&) {});
    loop_.run_posted();
  }
  disk_.failing = true;
  AlertServiceFixture life(loop_, disk_);
  life.stay(85, 30);
  EXPECT_EQ(life.said(), kFired);
  const std::uint64_t anew = life.service.engine().firing_alerts().at(0).number;
  EXPECT_GT(anew, 1U);
  disk_.failing = false;
  life.stay(85, 10);
  EXPECT_EQ(life.said().size(), 2U);  // messages that were not accepted before are sent now
  EXPECT_EQ(disk_.alerts.at(1).state, AlertState::resolved);
  EXPECT_EQ(disk_.alerts.at(anew).state, AlertState::firing);
  EXPECT_EQ(disk_.silences.size(), 1U);
  EXPECT_EQ(disk_.outgoing.size(), 2U);
}

TEST_F(AlertServiceTest, LateLoadRestoresQuarantineAndResolvesRemovedRules) {
  Rule cold = hot_rule();
  cold.name = "cold";
  {
    AlertServiceFixture life(loop_, disk_, {quarantining(), cold});
    life.stay(85, 11);
    for (const OutboxMessage& one : life.messenger.said) life.service.mark_delivered(one.id);
    loop_.run_posted();
  }
  disk_.failing = true;
  AlertServiceFixture life(loop_, disk_, {quarantining()});
  life.stay({}, 12);
  ASSERT_TRUE(life.service.is_open());
  EXPECT_FALSE(life.service.is_loading()) << "a read that failed is not waited for";
  EXPECT_FALSE(life.service.quarantine("GPU-0"));
  disk_.failing = false;
  life.stay({}, 10);
  EXPECT_TRUE(life.service.quarantine("GPU-0"));
  EXPECT_EQ(life.said(), Said{"resolved GPU 0 is at 85 C"});
  ASSERT_EQ(life.service.engine().firing_alerts().size(), 1U);
  EXPECT_EQ(life.service.engine().firing_alerts()[0].rule, "hot");
}

TEST_F(AlertServiceTest, RestartNotifiesNewSinkOfFiringAlert) {
  {
    AlertServiceFixture life(loop_, disk_);
    life.stay(85, 11);
    EXPECT_EQ(life.said(), kFired);
  }
  AlertServiceFixture next(loop_, disk_, {hot_rule()},
                           {"log", "ops"});  // the log has not accepted its message yet
  EXPECT_EQ(next.said(), (Said{"firing GPU 0 is at 85 C", "ops: firing GPU 0 is at 85 C"}));
}

TEST_F(AlertServiceTest, OutboxPreservesMessageOrder) {
  AlertServiceFixture life(loop_, disk_);
  life.stay(85, 11);
  life.stay(60, 60);
  std::map<std::uint64_t, std::string> by_order;
  for (const auto& [id, one] : disk_.outgoing) by_order[one.order] = one.body;
  ASSERT_EQ(by_order.size(), 2U);
  EXPECT_TRUE(by_order.begin()->second.starts_with("firing"));
}

TEST_F(AlertServiceTest, AQuarantineIsBackAfterARestartBeforeAnyReading) {
  {
    AlertServiceFixture life(loop_, disk_, {quarantining()});
    life.stay(85, 11);
  }
  AlertServiceFixture life(loop_, disk_, {quarantining()});
  EXPECT_TRUE(life.service.quarantine("GPU-0"));
}

TEST_F(AlertServiceTest, RestartResolvesAlertOfRemovedRule) {
  {
    AlertServiceFixture life(loop_, disk_);
    life.stay(85, 11);
    life.service.mark_delivered(life.messenger.said[0].id);
    loop_.run_posted();
  }
  AlertServiceFixture life(loop_, disk_, {});
  EXPECT_EQ(life.said(), Said{"resolved GPU 0 is at 85 C"});
  EXPECT_EQ(disk_.alerts.at(1).end_reason, "its rule was removed");
}

}  // namespace
}  // namespace gpuyard::andon
