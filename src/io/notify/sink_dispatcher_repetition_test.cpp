// Alerts that fire are sent again to sinks that would resolve them.
#include "io/notify/sink_dispatcher.h"

#include <gmock/gmock.h>

#include "io/notify/sinks_for_tests.h"

namespace gpuyard::notify {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

SinkConfig alertmanager_named(std::string name) {
  auto sink = webhook_named(std::move(name));
  sink.kind = SinkKind::alertmanager;
  return sink;
}

// An Alertmanager resolves an alert that is not sent again in time.
TEST(SinkDispatcher, FiringAlertsAreResentOnlyToAlertmanager) {
  FakeSinks fake({alertmanager_named("a"), webhook_named("b")});
  for (const char* sink : {"a", "b"}) fake.sinks[sink].answers = &takes;
  Notification minor = hot_gpu("minor");
  minor.level = NotificationLevel::info;
  fake.dispatcher.set_firing(
      {{hot_gpu("n-1"), {"a", "b"}}, {minor, {"b"}}, {about("x", "n-2"), {"a"}}});
  fake.loop.advance(seconds(59));
  EXPECT_THAT(fake.sinks["a"].tries, IsEmpty());
  fake.loop.advance(seconds(61));
  EXPECT_THAT(fake.sinks["a"].tries, ElementsAre("n-1+n-2", "n-1+n-2"));
  fake.dispatcher.set_firing({});
  fake.loop.advance(hours(1));
  EXPECT_EQ(fake.sinks["a"].tries.size(), 2U);
  EXPECT_THAT(fake.sinks["b"].tries, IsEmpty());
  EXPECT_THAT(fake.reports, IsEmpty());
}

TEST(SinkDispatcher, ReturnedSinkGetsFiringAlerts) {
  FakeSinks fake;
  fake.dispatcher.set_firing({{hot_gpu("n-1"), {"a"}}});
  fake.sinks["a"].answers = &takes;
  fake.reload({alertmanager_named("a")});
  fake.loop.advance(minutes(1));
  EXPECT_THAT(fake.sinks["a"].tries, ElementsAre("n-1"));
}

TEST(SinkDispatcher, PendingSendDelaysResend) {
  FakeSinks fake({alertmanager_named("a")});
  FakeSink& sink = fake.sinks["a"];
  fake.dispatcher.set_firing({{hot_gpu("n-1"), {"a"}}});
  fake.dispatcher.send("a", hot_gpu("n-1"));
  fake.loop.advance(minutes(5));
  EXPECT_THAT(sink.tries, ElementsAre("n-1"));
  sink.answers = &takes;
  sink.hanging.front()(SendResult::delivered());
  fake.loop.run_posted();
  EXPECT_THAT(sink.tries, ElementsAre("n-1", "n-1"));
}

TEST(SinkDispatcher, SlowSinkGetsNewNotificationBeforeResend) {
  SendResult busy = SendResult::retry_later("503");
  busy.retry_after = minutes(2);
  for (const SendResult& outcome : {SendResult::delivered(), busy}) {
    FakeSinks fake({alertmanager_named("a")});
    FakeSink& sink = fake.sinks["a"];
    fake.dispatcher.set_firing({{hot_gpu("n-1"), {"a"}}});
    fake.loop.advance(minutes(1));
    fake.dispatcher.send("a", about("x", "n-2"));
    fake.loop.advance(minutes(2));
    EXPECT_THAT(sink.tries, ElementsAre("n-1"));
    sink.hanging.front()(outcome);
    fake.loop.advance(minutes(2));
    EXPECT_THAT(sink.tries, ElementsAre("n-1", "n-2"));
  }
}

TEST(SinkDispatcher, LevelChangeAfterReloadResolvesOldLevel) {
  FakeSinks fake({alertmanager_named("a")});
  fake.sinks["a"].answers = &takes;
  Notification milder = hot_gpu("n-1");
  milder.level = NotificationLevel::error;
  fake.dispatcher.send("a", milder);
  fake.loop.run_posted();
  auto other = alertmanager_named("a");
  other.timeout = seconds(3);
  fake.reload({other});
  fake.dispatcher.send("a", hot_gpu("n-2"));
  fake.loop.run_posted();
  EXPECT_THAT(fake.sinks["a"].tries, ElementsAre("n-1", "n-2+n-2"));  // an end, and a beginning
  fake.dispatcher.send("a", hot_gpu("n-3"));
  fake.loop.run_posted();
  EXPECT_EQ(fake.sinks["a"].tries.back(), "n-3");
}

}  // namespace
}  // namespace gpuyard::notify
