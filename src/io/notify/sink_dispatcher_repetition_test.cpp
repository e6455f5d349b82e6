// Alerts that fire are told again to sinks that forget them.
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
  FakeSinks yard({alertmanager_named("a"), webhook_named("b")});
  for (const char* sink : {"a", "b"}) yard.sinks[sink].answers = &takes;
  Notification minor = hot_gpu("minor");
  minor.level = NotificationLevel::info;
  yard.dispatcher.set_firing(
      {{hot_gpu("n-1"), {"a", "b"}}, {minor, {"b"}}, {about("x", "n-2"), {"a"}}});
  yard.loop.advance(seconds(59));
  EXPECT_THAT(yard.sinks["a"].tries, IsEmpty());
  yard.loop.advance(seconds(61));
  EXPECT_THAT(yard.sinks["a"].tries, ElementsAre("n-1+n-2", "n-1+n-2"));
  yard.dispatcher.set_firing({});
  yard.loop.advance(hours(1));
  EXPECT_EQ(yard.sinks["a"].tries.size(), 2U);
  EXPECT_THAT(yard.sinks["b"].tries, IsEmpty());
  EXPECT_THAT(yard.told, IsEmpty());
}

TEST(SinkDispatcher, ReturnedSinkGetsFiringAlerts) {
  FakeSinks yard;
  yard.dispatcher.set_firing({{hot_gpu("n-1"), {"a"}}});
  yard.sinks["a"].answers = &takes;
  yard.reload({alertmanager_named("a")});
  yard.loop.advance(minutes(1));
  EXPECT_THAT(yard.sinks["a"].tries, ElementsAre("n-1"));
}

TEST(SinkDispatcher, PendingSendDelaysResend) {
  FakeSinks yard({alertmanager_named("a")});
  FakeSink& sink = yard.sinks["a"];
  yard.dispatcher.set_firing({{hot_gpu("n-1"), {"a"}}});
  yard.dispatcher.send("a", hot_gpu("n-1"));
  yard.loop.advance(minutes(5));
  EXPECT_THAT(sink.tries, ElementsAre("n-1"));
  sink.answers = &takes;
  sink.hanging.front()(SendResult::delivered());
  yard.loop.run_posted();
  EXPECT_THAT(sink.tries, ElementsAre("n-1", "n-1"));
}

TEST(SinkDispatcher, SlowSinkGetsNewNotificationBeforeResend) {
  SendResult busy = SendResult::retry_later("503");
  busy.retry_after = minutes(2);
  for (const SendResult& outcome : {SendResult::delivered(), busy}) {
    FakeSinks yard({alertmanager_named("a")});
    FakeSink& sink = yard.sinks["a"];
    yard.dispatcher.set_firing({{hot_gpu("n-1"), {"a"}}});
    yard.loop.advance(minutes(1));
    yard.dispatcher.send("a", about("x", "n-2"));
    yard.loop.advance(minutes(2));
    EXPECT_THAT(sink.tries, ElementsAre("n-1"));
    sink.hanging.front()(outcome);
    yard.loop.advance(minutes(2));
    EXPECT_THAT(sink.tries, ElementsAre("n-1", "n-2"));
  }
}

TEST(SinkDispatcher, LevelChangeAfterReloadResolvesOldLevel) {
  FakeSinks yard({alertmanager_named("a")});
  yard.sinks["a"].answers = &takes;
  Notification milder = hot_gpu("n-1");
  milder.level = NotificationLevel::error;
  yard.dispatcher.send("a", milder);
  yard.loop.run_posted();
  auto other = alertmanager_named("a");
  other.timeout = seconds(3);
  yard.reload({other});
  yard.dispatcher.send("a", hot_gpu("n-2"));
  yard.loop.run_posted();
  EXPECT_THAT(yard.sinks["a"].tries, ElementsAre("n-1", "n-2+n-2"));  // an end, and a beginning
  yard.dispatcher.send("a", hot_gpu("n-3"));
  yard.loop.run_posted();
  EXPECT_EQ(yard.sinks["a"].tries.back(), "n-3");
}

}  // namespace
}  // namespace gpuyard::notify
