#include "io/notify/sink_dispatcher.h"

#include <gmock/gmock.h>

#include "base/captured_log_for_tests.h"
#include "io/notify/back_off.h"
#include "io/notify/sinks_for_tests.h"

namespace gpuyard::notify {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

TEST(SinkDispatcher, NotificationIsDeliveredAndReported) {
  FakeSinks fake({webhook_named("a")});
  fake.sinks["a"].answers = &takes;
  fake.dispatcher.send("a", hot_gpu("n-1"));
  EXPECT_THAT(fake.sinks["a"].tries, IsEmpty());  // never within the call
  fake.loop.run_posted();
  EXPECT_THAT(fake.sinks["a"].tries, ElementsAre("n-1"));
  EXPECT_THAT(fake.reports, ElementsAre("a has n-1"));
  EXPECT_EQ(fake.figures("a").delivered_total, 1U);
  EXPECT_EQ(fake.figures("a").queued, 0U);
}

TEST(SinkDispatcher, HangingSinkDelaysNoOther) {
  FakeSinks fake({webhook_named("a"), webhook_named("b")});
  fake.sinks["b"].answers = &takes;
  for (const char* sink : {"a", "b"}) fake.dispatcher.send(sink, hot_gpu("n-1"));
  for (const char* sink : {"a", "b"}) fake.dispatcher.send(sink, about("x", "n-2"));
  fake.loop.advance(hours(1));
  EXPECT_THAT(fake.reports, ElementsAre("b has n-1", "b has n-2"));
  EXPECT_EQ(fake.figures("a").queued, 2U);
}

TEST(SinkDispatcher, UnknownSinkDeadLettersNotification) {
  FakeSinks fake;
  fake.dispatcher.send("a", hot_gpu("n-1"));
  EXPECT_THAT(fake.reports, IsEmpty());
  fake.loop.run_posted();
  EXPECT_THAT(fake.reports, ElementsAre("a never gets n-1: unknown sink a"));
}

TEST(SinkDispatcher, RemovedSinkIsLoggedOnce) {
  const CapturedLog log;
  FakeSinks fake;
  for (const char* id : {"n-1", "n-2"}) fake.dispatcher.send("a", about("x/GPU-1", id));
  fake.loop.run_posted();
  EXPECT_THAT(CapturedLog::lines(),
              ElementsAre(HasSubstr("Sink a: a notification of alert x/GPU-1 was dropped because "
                                    "the sink no longer exists")));
  EXPECT_EQ(fake.reports.size(), 2U);
}

TEST(SinkDispatcher, NameTheSinksThatWantALevel) {
  auto quiet = webhook_named("quiet");
  quiet.min_level = NotificationLevel::critical;
  FakeSinks fake({webhook_named("all"), quiet});
  EXPECT_THAT(fake.dispatcher.sink_names_at(NotificationLevel::info), IsEmpty());
  EXPECT_THAT(fake.dispatcher.sink_names_at(NotificationLevel::warning), ElementsAre("all"));
  EXPECT_THAT(fake.dispatcher.sink_names_at(NotificationLevel::critical),
              ElementsAre("all", "quiet"));
  EXPECT_THAT(fake.dispatcher.sink_names(), ElementsAre("all", "quiet"));
}

TEST(SinkDispatcher, RetryDelayGrowsToFiveMinutes) {
  FakeSinks fake({webhook_named("a")});
  FakeSink& sink = fake.sinks["a"];
  sink.answers = &fails;
  fake.dispatcher.send("a", hot_gpu("n-1"));
  fake.loop.advance(hours(1));
  ASSERT_GT(sink.when.size(), 12U);
  Duration whole = kInitialBackOff;
  for (std::size_t i = 1; i < sink.when.size(); ++i) {
    const Duration pause = sink.when[i] - sink.when[i - 1];
    EXPECT_GE(pause, whole / 2) << i;
    EXPECT_LE(pause, whole) << i;
    whole = std::min(whole * 2, kMaxBackOff);
  }
  EXPECT_THAT(fake.reports, IsEmpty());
  EXPECT_EQ(fake.figures("a").retries_total, sink.tries.size() - 1);
  EXPECT_EQ(fake.figures("a").last_error, "no answer");
  EXPECT_TRUE(fake.figures("a").failing_since);
  sink.answers = &takes;
  fake.loop.advance(minutes(5));
  EXPECT_THAT(fake.reports, ElementsAre("a has n-1"));
  EXPECT_FALSE(fake.figures("a").failing_since);
}

// Nodes that share a sink must not all retry at the same moment.
TEST(SinkDispatcher, BackOffIncludesJitter) {
  EXPECT_EQ(back_off(1, 0), milliseconds(500));
  EXPECT_EQ(back_off(1, 1), seconds(1));
  EXPECT_EQ(back_off(4, 0.5), seconds(6));
  EXPECT_EQ(back_off(1000, 1), minutes(5));
}

TEST(SinkDispatcher, GiveUpAfterSixHours) {
  const CapturedLog log;
  FakeSinks fake({webhook_named("a")});
  fake.sinks["a"].answers = &fails;
  fake.dispatcher.send("a", hot_gpu("n-1"));
  fake.loop.advance(hours(6) - seconds(1));
  EXPECT_THAT(fake.reports, IsEmpty());
  fake.loop.advance(seconds(1));
  EXPECT_THAT(fake.reports, ElementsAre("a never gets n-1: dropped after 6 hours: no answer"));
  EXPECT_EQ(fake.figures("a").dead_letters_total, 1U);
  EXPECT_THAT(log.lines(), Contains(HasSubstr("ERROR Sink a: a notification of alert hot/GPU-3")));
  const std::size_t tries = fake.sinks["a"].tries.size();
  fake.loop.advance(hours(1));
  EXPECT_EQ(fake.sinks["a"].tries.size(), tries);
}

TEST(SinkDispatcher, RefusedNotificationIsNotRetried) {
  FakeSinks fake({webhook_named("a")});
  fake.sinks["a"].answers = [](const std::string&) { return SendResult::rejected("404"); };
  fake.dispatcher.send("a", hot_gpu("n-1"));
  fake.loop.advance(hours(1));
  EXPECT_THAT(fake.sinks["a"].tries, ElementsAre("n-1"));
  EXPECT_THAT(fake.reports, ElementsAre("a never gets n-1: 404"));
}

TEST(SinkDispatcher, NeverLetAnEndOvertakeItsBeginning) {
  FakeSinks fake({webhook_named("a")});
  FakeSink& sink = fake.sinks["a"];
  sink.answers = [](const std::string& id) { return id == "on" ? fails(id) : takes(id); };
  fake.dispatcher.send("a", about("k", "on"));
  fake.loop.run_posted();
  fake.dispatcher.send("a", about("k", "off", Status::resolved));
  fake.loop.advance(hours(1));
  EXPECT_THAT(sink.tries, Not(Contains("off")));
  sink.answers = &takes;
  fake.loop.advance(minutes(5));
  EXPECT_THAT(fake.reports, ElementsAre("a has on", "a has off"));  // no alert is lost
}

TEST(SinkDispatcher, ResolvedIsSentAfterRefusedFiring) {
  FakeSinks fake({webhook_named("a")});
  fake.sinks["a"].answers = [](const std::string& id) {
    return id == "on" ? SendResult::rejected("no") : SendResult::delivered();
  };
  fake.dispatcher.send("a", about("k", "on"));
  fake.dispatcher.send("a", about("k", "off", Status::resolved));
  fake.loop.run_posted();
  EXPECT_THAT(fake.reports, ElementsAre("a never gets on: no", "a has off"));
}

TEST(SinkDispatcher, FailingNotificationDelaysOthersFiveSecondsAtMost) {
  FakeSinks fake({webhook_named("a")});
  fake.sinks["a"].answers = [](const std::string& id) {
    return id == "bad" ? fails(id) : takes(id);
  };
  fake.dispatcher.send("a", about("x", "bad"));
  fake.loop.advance(hours(1));  // its next try is minutes away
  for (const char* id : {"n-1", "n-2"}) {
    fake.dispatcher.send("a", about(id, id));
    fake.loop.advance(kMaxFailurePause);
  }
  EXPECT_THAT(fake.reports, ElementsAre("a has n-1", "a has n-2"));
}

TEST(SinkDispatcher, TryEachOnceBeforeOneTwice) {
  FakeSinks fake({webhook_named("a")});
  FakeSink& sink = fake.sinks["a"];
  sink.answers = &fails;
  for (const char* id : {"n-1", "n-2", "n-3"}) fake.dispatcher.send("a", about(id, id));
  fake.loop.advance(minutes(1));
  ASSERT_GT(sink.tries.size(), 3U);
  sink.tries.resize(3);
  EXPECT_THAT(sink.tries, ElementsAre("n-1", "n-2", "n-3"));
}

// A clock that moves on at each read, as clocks do outside of tests.
class TickingLoop final : public Loop {
 public:
  explicit TickingLoop(ManualLoop& inner) : inner_(inner) {}

  TimePoint now() const override {
    inner_.stall(std::chrono::nanoseconds(1));
    return inner_.now();
  }
  WallTime wall() const override { return inner_.wall(); }
  void post(std::function<void()> work) override { inner_.post(std::move(work)); }
  Subscription call_at(TimePoint when, std::function<void()> work) override {
    return inner_.call_at(when, std::move(work));
  }
  Subscription watch(int fd, std::function<void()> readable) override {
    return inner_.watch(fd, std::move(readable));
  }

 private:
  ManualLoop& inner_;
};

TEST(SinkDispatcher, LeastTriedNotificationGoesFirst) {
  ManualLoop time;
  TickingLoop loop(time);
  FakeSink sink;
  // Asks for a longer wait than our own pause: by then both may go.
  sink.answers = [](const std::string&) {
    SendResult outcome = SendResult::retry_later("429");
    outcome.retry_after = kMaxRetryAfter;
    return outcome;
  };
  SinkDispatcher outlets(
      loop, [&](const SinkConfig&) { return std::make_unique<FakeSender>(loop, sink); }, {});
  ASSERT_TRUE(outlets.replace({webhook_named("a")}));
  outlets.send("a", about("x", "n-1"));
  time.run_posted();
  time.advance(seconds(1));
  outlets.send("a", about("y", "n-2"));
  time.advance(kMaxRetryAfter);
  EXPECT_THAT(sink.tries, ElementsAre("n-1", "n-2"));
}

TEST(SinkDispatcher, SinkRecoverySendsAllQueuedSoon) {
  FakeSinks fake({webhook_named("a")});
  fake.sinks["a"].answers = &fails;
  for (const char* id : {"n-1", "n-2", "n-3"}) fake.dispatcher.send("a", about(id, id));
  fake.loop.advance(hours(2));
  fake.sinks["a"].answers = &takes;
  fake.dispatcher.send("a", about("x", "n-4"));
  fake.loop.advance(kMaxFailurePause);
  ASSERT_FALSE(fake.reports.empty());
  EXPECT_EQ(fake.reports.front(), "a has n-4");
  EXPECT_THAT(fake.reports,
              UnorderedElementsAre("a has n-4", "a has n-1", "a has n-2", "a has n-3"));
}

TEST(SinkDispatcher, RetryAfterIsHonouredUpToMaximum) {
  for (const auto& [asked, waits] : {std::pair<Duration, Duration>{seconds(40), seconds(40)},
                                     std::pair<Duration, Duration>{hours(100), kMaxRetryAfter}}) {
    FakeSinks fake({webhook_named("a")});
    FakeSink& sink = fake.sinks["a"];
    sink.answers = [wait = asked](const std::string&) {
      SendResult outcome = SendResult::retry_later("429");
      outcome.retry_after = wait;
      return outcome;
    };
    fake.dispatcher.send("a", about("x", "n-1"));
    fake.loop.run_posted();
    fake.dispatcher.send("a", about("y", "n-2"));
    fake.loop.advance(waits - milliseconds(1));
    EXPECT_THAT(sink.tries, ElementsAre("n-1"));
    fake.loop.advance(milliseconds(1));
    EXPECT_THAT(sink.tries, ElementsAre("n-1", "n-2"));
  }
}

TEST(SinkDispatcher, RateLimitQueuesNotificationsAndLogsOnce) {
  const CapturedLog log;
  auto config = webhook_named("a");
  config.rate_per_minute = 6;
  FakeSinks fake({config});
  fake.sinks["a"].answers = &takes;
  for (int i = 0; i < 20; ++i) fake.dispatcher.send("a", about(std::to_string(i), "n"));
  fake.loop.run_posted();
  EXPECT_EQ(fake.sinks["a"].tries.size(), 6U);
  fake.loop.advance(seconds(10));
  EXPECT_EQ(fake.sinks["a"].tries.size(), 7U);
  fake.loop.advance(seconds(50));
  EXPECT_EQ(fake.sinks["a"].tries.size(), 12U);
  fake.loop.advance(minutes(2));
  EXPECT_EQ(fake.sinks["a"].tries.size(), 20U);
  EXPECT_THAT(log.lines(),
              ElementsAre("WARNING Sink a: more than 6 attempts per minute; 14 waiting"));
}

TEST(SinkDispatcher, FullQueueDropsOldest) {
  FakeSinks fake({webhook_named("a")});
  FakeSink& sink = fake.sinks["a"];
  fake.dispatcher.send("a", about("0", "0"));
  fake.loop.run_posted();  // under way, so it stays
  for (std::size_t i = 1; i <= kMaxQueuedNotifications; ++i) {
    fake.dispatcher.send("a", about(std::to_string(i), std::to_string(i)));
  }
  fake.loop.run_posted();
  EXPECT_THAT(fake.reports,
              ElementsAre("a never gets 1: 1000 other notifications are queued for the "
                          "sink, none of them less severe"));
  EXPECT_EQ(fake.figures("a").queued, kMaxQueuedNotifications);
  EXPECT_EQ(fake.figures("a").dead_letters_total, 1U);
  sink.answers = &takes;
  sink.hanging.front()(SendResult::delivered());
  fake.loop.advance(hours(1));
  EXPECT_EQ(fake.figures("a").delivered_total, kMaxQueuedNotifications);
}

Notification small(const std::string& id) {
  Notification notice = about("small-" + id, id);
  notice.severity = 40;
  notice.level = level_of(notice.severity);
  return notice;
}

TEST(SinkDispatcher, FullQueueDropsLeastSevereFirst) {
  FakeSinks fake({webhook_named("a")});
  fake.dispatcher.send("a", small("0"));
  fake.loop.run_posted();  // under way, so it stays
  fake.dispatcher.send("a", about("lost", "page"));
  for (std::size_t i = 1; i <= kMaxQueuedNotifications; ++i)
    fake.dispatcher.send("a", small(std::to_string(i)));
  fake.loop.run_posted();
  EXPECT_THAT(fake.reports,
              ElementsAre("a never gets 1: 1000 other notifications are queued for the "
                          "sink, none of them less severe",
                          "a never gets 2: 1000 other notifications are queued for the "
                          "sink, none of them less severe"));
}

TEST(SinkDispatcher, MostSevereQueuedNotificationGoesFirst) {
  FakeSinks fake({webhook_named("a")});
  FakeSink& sink = fake.sinks["a"];
  fake.dispatcher.send("a", small("0"));
  fake.loop.run_posted();
  fake.dispatcher.send("a", small("1"));
  fake.dispatcher.send("a", about("lost", "page"));
  sink.answers = &takes;
  sink.hanging.front()(SendResult::delivered());
  fake.loop.run_posted();
  EXPECT_THAT(sink.tries, ElementsAre("0", "page", "1"));
}

TEST(SinkDispatcher, ReloadKeepsQueuedNotificationsOfExistingSinks) {
  FakeSinks fake({webhook_named("a"), webhook_named("b")});
  fake.sinks["a"].answers = &fails;
  fake.sinks["b"].answers = &fails;
  for (const char* sink : {"a", "b"}) fake.dispatcher.send(sink, hot_gpu("n-1"));
  fake.loop.advance(hours(1));
  auto other = webhook_named("a");
  other.url = *parse_url("https://example.org/better");
  fake.sinks["a"].answers = &takes;
  fake.reload({other});
  fake.loop.run_posted();  // at once: what was wrong may be what was changed
  EXPECT_THAT(fake.reports, ::testing::UnorderedElementsAre(
                                "a has n-1", "b never gets n-1: the sink b no longer exists"));
}

TEST(SinkDispatcher, ReloadDoesNotRepeatPendingSend) {
  FakeSinks fake({webhook_named("a")});
  FakeSink& sink = fake.sinks["a"];
  fake.dispatcher.send("a", hot_gpu("n-1"));
  fake.loop.run_posted();
  auto other = webhook_named("a");
  other.timeout = seconds(3);
  fake.reload({other});
  fake.loop.advance(minutes(1));
  sink.hanging.front()(SendResult::delivered());
  fake.loop.advance(minutes(1));
  EXPECT_THAT(sink.tries, ElementsAre("n-1"));
  EXPECT_THAT(fake.reports, ElementsAre("a has n-1"));
}

TEST(SinkDispatcher, DuplicateOrExcessSinksKeepOldConfiguration) {
  FakeSinks fake({webhook_named("a")});
  EXPECT_FALSE(fake.dispatcher.replace({webhook_named("b"), webhook_named("b")}));
  EXPECT_FALSE(fake.dispatcher.replace(std::vector(kMaxSinks + 1, webhook_named("b"))));
  EXPECT_THAT(fake.dispatcher.sink_names(), ElementsAre("a"));
}

TEST(SinkDispatcher, UndeliveredAlertsAreNamedInLog) {
  const CapturedLog log;
  FakeSinks fake({webhook_named("a")});
  fake.sinks["a"].answers = [](const std::string&) { return SendResult::rejected("404"); };
  for (const char* alert : {"x", "y", "z"}) fake.dispatcher.send("a", about(alert, alert));
  fake.loop.run_posted();
  EXPECT_THAT(
      log.lines(),
      Contains("ERROR Sink a: a notification of alert x was not delivered (1 so far): 404"));
  fake.loop.advance(minutes(1));
  EXPECT_EQ(log.lines().back(),
            "ERROR Sink a: 2 notifications of alerts y, z were not delivered (3 so far): 404");
  fake.loop.advance(hours(1));
  EXPECT_EQ(log.lines().size(), 3U);  // one of them that the sink fails
}

TEST(SinkDispatcher, LogLineNamesSixteenAlertsAtMost) {
  const CapturedLog log;
  FakeSinks fake({webhook_named("a")});
  for (int i = 0; i < 20; ++i) fake.dispatcher.send("a", about(std::to_string(i), "n"));
  fake.reload({});
  EXPECT_THAT(
      log.lines(),
      ElementsAre(
          HasSubstr("a notification of alert 0 was not delivered (1 so far)"),
          HasSubstr(
              "19 notifications of alerts 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 "
              "and others were not delivered (20 so far): the sink a no longer exists")));
}

TEST(SinkDispatcher, WriteToTheLogAtOnce) {
  RecordProperty("contract", "C9");
  const CapturedLog log;
  SinkConfig config;
  config.name = "log";
  FakeSinks fake({config});
  fake.dispatcher.send("log", hot_gpu("n-1"));
  EXPECT_THAT(log.lines(),
              ElementsAre("ERROR ALERT [severity 85]: GPU 3 is at 91 °C, threshold 80 °C"));
  fake.dispatcher.send("log", cool_again("n-2"));
  EXPECT_EQ(log.lines().back(), "INFO RESOLVED [severity 85]: GPU 3 is at 91 °C, threshold 80 °C");
  EXPECT_THAT(fake.reports, IsEmpty());
  fake.loop.run_posted();
  EXPECT_THAT(fake.reports, ElementsAre("log has n-1", "log has n-2"));
}

TEST(SinkDispatcher, LogSinkWritesOneSanitizedLine) {
  const CapturedLog log;
  SinkConfig config;
  config.name = "log";
  FakeSinks fake({config});
  Notification notice = hot_gpu();
  notice.message = "GPU 3\nALERT [severity 100]: forged\x7F\x1B";
  fake.dispatcher.send("log", notice);
  EXPECT_THAT(log.lines(),
              ElementsAre("ERROR ALERT [severity 85]: GPU 3?ALERT [severity 100]: forged??"));
  notice.message = std::string(100'000, 'x');
  fake.dispatcher.send("log", notice);
  EXPECT_LT(log.lines().back().size(), 2100U);
}

TEST(SinkDispatcher, DestructionSuppressesCallbacks) {
  ManualLoop loop;
  bool was_called = false;
  {
    SinkDispatcher outlets(
        loop, nullptr,
        {.on_delivered = [&](const auto&, const auto&) { was_called = true; },
         .on_dead_letter = [&](const auto&, const auto&, const auto&) { was_called = true; }});
    outlets.send("a", hot_gpu());
  }
  loop.run_posted();
  EXPECT_FALSE(was_called);
}

}  // namespace
}  // namespace gpuyard::notify
