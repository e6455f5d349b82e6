// The routes of alerts, over an alert service that is stored in memory.
#include "faces/api/routes_for_tests.h"

namespace gpuyard::api {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

class AlertRoutes : public LeaseRoutes {
 protected:
  AlertRoutes() { messenger_.sinks.clear(); }

  void make_hot(double celsius = 91) {
    for (int i = 0; i < 12; ++i) {
      world_.loop.advance(seconds(1));
      alert_service_.tick(andon::at_temperature(celsius));
    }
    world_.loop.run_posted();
  }
  Calls post(const std::string& path, const std::string& body) {
    return LeaseRoutes::post(path, body, admin());
  }
  http::Peer admin() { return process(77, 0); }
};

TEST_F(AlertRoutes, FiringAndPendingAlertsAreListed) {
  world_.loop.advance(seconds(1));
  alert_service_.tick(andon::at_temperature(85));
  auto alerts = json::from_json<protocol::Alerts>(get("/api/gpu/alerts")->text());
  ASSERT_TRUE(alerts) << alerts.error().message;
  EXPECT_TRUE(alerts->alerts.empty());
  ASSERT_EQ(alerts->pending.size(), 1U);
  EXPECT_EQ(alerts->pending[0].hold_s, 10);
  make_hot();
  alerts = json::from_json<protocol::Alerts>(get("/api/gpu/alerts")->text());
  ASSERT_TRUE(alerts) << alerts.error().message;
  ASSERT_EQ(alerts->alerts.size(), 1U);
  EXPECT_EQ(alerts->alerts[0].message, "GPU 0 is at 91 C");
  EXPECT_EQ(alerts->alerts[0].level, AlertLevel::error);
  EXPECT_EQ(alerts->alerts[0].device->uuid, "GPU-0");
}

TEST_F(AlertRoutes, AcknowledgementRecordsCallerAndNote) {
  make_hot();
  const auto call = post("/api/gpu/alerts/1/acknowledge", R"({"note":"on it"})");
  const auto answer = json::from_json<protocol::AlertAnswer>(call->text());
  ASSERT_TRUE(answer) << call->text();
  EXPECT_EQ(answer->alert.acknowledged->by, "uid 0");
  EXPECT_EQ(answer->alert.acknowledged->note, "on it");
}

TEST_F(AlertRoutes, UnknownAlertOrLongNoteIsRefused) {
  EXPECT_EQ(post("/api/gpu/alerts/7/acknowledge", "")->status(), 404);
  EXPECT_EQ(post("/api/gpu/alerts/x/acknowledge", "")->status(), 400);
  const auto long_note =
      post("/api/gpu/alerts/1/acknowledge", R"({"note":")" + std::string(201, 'x') + R"("})");
  EXPECT_THAT(long_note->message(), HasSubstr("/note"));
}

TEST_F(AlertRoutes, ASilenceIsMadeListedAndEnded) {
  const auto made = post("/api/gpu/silences", R"({"for_s":60,"rule":"hot","comment":"test"})");
  EXPECT_EQ(made->status(), 201);
  const auto silence = json::from_json<protocol::Silence>(made->text());
  ASSERT_TRUE(silence) << made->text();
  EXPECT_EQ(silence->gpu, "");
  make_hot();
  const auto alerts = json::from_json<protocol::Alerts>(get("/api/gpu/alerts")->text());
  ASSERT_TRUE(alerts && alerts->alerts.size() == 1);
  EXPECT_TRUE(alerts->alerts[0].silenced);
  const auto ended = del("/api/gpu/silences/" + silence->id, admin());
  EXPECT_EQ(ended->status(), 200);
  EXPECT_EQ(json::from_json<protocol::Silences>(get("/api/gpu/silences")->text())->silences.size(),
            0U);
}

TEST_F(AlertRoutes, InvalidSilenceDurationRuleOrGpuIsRefused) {
  EXPECT_THAT(post("/api/gpu/silences", R"({"for_s":0})")->message(), HasSubstr("/for_s"));
  EXPECT_THAT(post("/api/gpu/silences", R"({"for_s":2592001})")->message(), HasSubstr("/for_s"));
  EXPECT_THAT(post("/api/gpu/silences", R"({"for_s":1,"rule":"cold"})")->message(),
              HasSubstr("unknown rule \"cold\""));
  EXPECT_EQ(post("/api/gpu/silences", R"({"for_s":1,"gpu":"9"})")->status(), 404);
  EXPECT_EQ(post("/api/gpu/silences", R"({"for_s":1,"gpu":"GPU-misspelt"})")->status(), 404);
  EXPECT_THAT(post("/api/gpu/silences", R"({"for_s":1,"gpu":"0,1"})")->message(),
              HasSubstr("give one GPU, or none for all GPUs"));
}

TEST_F(AlertRoutes, HistoryIsReadFromDisk) {
  const auto call = get("/api/gpu/alerts/history?rule=hot&gpu=0&before=7&limit=3");
  EXPECT_EQ(call->status(), 200);
  EXPECT_EQ(alert_archive_.asked.rule, "hot");
  EXPECT_EQ(alert_archive_.asked.limit, 3);
  EXPECT_EQ(alert_archive_.asked.before, 7U);
  EXPECT_EQ(get("/api/gpu/alerts/history?limit=0")->status(), 400);
  alert_archive_.full = true;
  EXPECT_EQ(get("/api/gpu/alerts/history")->status(), 503);
}

TEST_F(AlertRoutes, QueriesOfTheDiskTakeTurns) {
  alert_archive_.silent = true;
  const auto busy = std::make_shared<int>(0);  // outlives this: unanswered requests end with 503
  const auto ask = [&](const std::string& group) {
    http::Request request;
    request.path = "/api/gpu/alerts/history";
    request.peer = local_user(1001);
    request.peer.quota_group = group;
    router_.handle(std::move(request), http::Reply([busy](const http::Response& sent) {
                     *busy += sent.status == 503 ? 1 : 0;
                   }));
  };
  for (int i = 0; i < 200; ++i) ask("127.0.0." + std::to_string(i));  // all of the loopback network
  EXPECT_EQ(alert_archive_.questions, static_cast<int>(limits::kMaxRunningQueries));
  EXPECT_EQ(*busy, 200 - static_cast<int>(limits::kMaxRunningQueries + limits::kMaxQueriesPerUser));
  ask("uid 0");
  EXPECT_EQ(*busy, 200 - static_cast<int>(limits::kMaxRunningQueries + limits::kMaxQueriesPerUser));
}

TEST_F(AlertRoutes, AlertNumberIsFoundInMemoryOrStorage) {
  make_hot();
  const auto firing = json::from_json<protocol::AlertAnswer>(get("/api/gpu/alerts/1")->text());
  ASSERT_TRUE(firing) << firing.error().message;
  EXPECT_EQ(firing->alert.message, "GPU 0 is at 91 C");
  const auto other = get("/api/gpu/alerts/7");
  world_.loop.run_posted();
  EXPECT_EQ(other->status(), 404);
  EXPECT_THAT(other->message(), HasSubstr("alert 7 not found"));
  EXPECT_EQ(alert_archive_.asked.before, 8U);
  EXPECT_EQ(alert_archive_.asked.limit, 1);
  andon::Alert older;
  older.number = 6;
  alert_archive_.remembered = {older};
  const auto found = get("/api/gpu/alerts/6");
  const auto forgotten = get("/api/gpu/alerts/7");
  world_.loop.run_posted();
  EXPECT_EQ(json::from_json<protocol::AlertAnswer>(found->text())->alert.number, 6U);
  EXPECT_EQ(forgotten->status(), 404) << "another one is the newest before it";
  EXPECT_EQ(get("/api/gpu/alerts/hot")->status(), 400);
  alert_archive_.full = true;
  EXPECT_EQ(get("/api/gpu/alerts/7")->status(), 503);
}

TEST_F(AlertRoutes, RulesAndSinksAreShownAndTested) {
  const auto rules = json::from_json<protocol::Rules>(get("/api/gpu/rules")->text());
  ASSERT_TRUE(rules) << rules.error().message;
  EXPECT_EQ(rules->file, "/etc/gpuyard/alerts.toml");
  EXPECT_EQ(rules->rules.at(0).name, "hot");
  EXPECT_EQ(rules->rules.at(0).fixed_severity, std::nullopt);
  const auto sinks = json::from_json<protocol::Sinks>(get("/api/gpu/sinks")->text());
  ASSERT_TRUE(sinks);
  EXPECT_EQ(sinks->sinks.at(0).name, "ops");
  EXPECT_EQ(post("/api/gpu/alerts/test", R"({"sink":"ops"})")->status(), 200);
  EXPECT_EQ(sinks_.asked, "ops by uid 0");
}

TEST_F(AlertRoutes, OnlyControlMayAct) {
  for (const char* const path :
       {"/api/gpu/alerts/1/acknowledge", "/api/gpu/silences", "/api/gpu/alerts/test"}) {
    EXPECT_EQ(ask(http::Method::post, path, R"({"for_s":1})", process(10, kAlice))->status(), 403)
        << path;
  }
}

TEST_F(AlertRoutes, SubscriberIsNotifiedUntilUnsubscribed) {
  alert_service_.set_on_change(
      [&](const andon::Alert& alert) { alert_publisher_.on_change(alert); });
  std::vector<std::string> messages;
  Subscription following = alert_publisher_.subscribe(
      [&](const protocol::Alert& alert) { messages.push_back(alert.message); });
  make_hot();
  EXPECT_EQ(messages, std::vector<std::string>{"GPU 0 is at 91 C"});
  following.reset();
  make_hot(20);
  EXPECT_EQ(messages.size(), 1U);
}

}  // namespace
}  // namespace gpuyard::api
