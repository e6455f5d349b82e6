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
TEST(Outlets, FiringAlertsAreResentOnlyToAlertmanager) {
  FakeYard yard({alertmanager_named("a"), webhook_named("b")});
  for (const char* sink : {"a", "b"}) yard.sinks[sink].answers = &takes;
  Notice minor = hot_gpu("minor");
  minor.level = Level::info;
  yard.outlets.still_firing(
      {{hot_gpu("n-1"), {"a", "b"}}, {minor, {"b"}}, {about("x", "n-2"), {"a"}}});
  yard.loop.advance(seconds(59));
  EXPECT_THAT(yard.sinks["a"].tries, IsEmpty());
  yard.loop.advance(seconds(61));
  EXPECT_THAT(yard.sinks["a"].tries, ElementsAre("n-1+n-2", "n-1+n-2"));
  yard.outlets.still_firing({});
  yard.loop.advance(hours(1));
  EXPECT_EQ(yard.sinks["a"].tries.size(), 2U);
  EXPECT_THAT(yard.sinks["b"].tries, IsEmpty());
  EXPECT_THAT(yard.told, IsEmpty());
}

TEST(Outlets, ReturnedSinkGetsFiringAlerts) {
  FakeYard yard;
  yard.outlets.still_firing({{hot_gpu("n-1"), {"a"}}});
  yard.sinks["a"].answers = &takes;
  yard.reload({alertmanager_named("a")});
  yard.loop.advance(minutes(1));
  EXPECT_THAT(yard.sinks["a"].tries, ElementsAre("n-1"));
}

TEST(Outlets, PendingSendDelaysResend) {
  FakeYard yard({alertmanager_named("a")});
  FakeSink& sink = yard.sinks["a"];
  yard.outlets.still_firing({{hot_gpu("n-1"), {"a"}}});
  yard.outlets.send("a", hot_gpu("n-1"));
  yard.loop.advance(minutes(5));
  EXPECT_THAT(sink.tries, ElementsAre("n-1"));
  sink.answers = &takes;
  sink.hanging.front()(Outcome::taken());
  yard.loop.run_posted();
  EXPECT_THAT(sink.tries, ElementsAre("n-1", "n-1"));
}

TEST(Outlets, SlowSinkGetsNewNotificationBeforeResend) {
  Outcome busy = Outcome::later("503");
  busy.after = minutes(2);
  for (const Outcome& outcome : {Outcome::taken(), busy}) {
    FakeYard yard({alertmanager_named("a")});
    FakeSink& sink = yard.sinks["a"];
    yard.outlets.still_firing({{hot_gpu("n-1"), {"a"}}});
    yard.loop.advance(minutes(1));
    yard.outlets.send("a", about("x", "n-2"));
    yard.loop.advance(minutes(2));
    EXPECT_THAT(sink.tries, ElementsAre("n-1"));
    sink.hanging.front()(outcome);
    yard.loop.advance(minutes(2));
    EXPECT_THAT(sink.tries, ElementsAre("n-1", "n-2"));
  }
}

TEST(Outlets, LevelChangeAfterReloadResolvesOldLevel) {
  FakeYard yard({alertmanager_named("a")});
  yard.sinks["a"].answers = &takes;
  Notice milder = hot_gpu("n-1");
  milder.level = Level::error;
  yard.outlets.send("a", milder);
  yard.loop.run_posted();
  auto other = alertmanager_named("a");
  other.timeout = seconds(3);
  yard.reload({other});
  yard.outlets.send("a", hot_gpu("n-2"));
  yard.loop.run_posted();
  EXPECT_THAT(yard.sinks["a"].tries, ElementsAre("n-1", "n-2+n-2"));  // an end, and a beginning
  yard.outlets.send("a", hot_gpu("n-3"));
  yard.loop.run_posted();
  EXPECT_EQ(yard.sinks["a"].tries.back(), "n-3");
}

}  // namespace
}  // namespace gpuyard::notify
