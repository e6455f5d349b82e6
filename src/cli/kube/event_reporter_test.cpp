#include "cli/kube/event_reporter.h"

#include <functional>
#include <memory>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/scratch_directory_for_tests.h"
#include "cli/kube/log_lines_for_tests.h"

namespace gpuyard::cli::kube {
namespace {

using gpuyard::kube::Outcome;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// An API server that has each Event once.
class FakeEvents final : public EventView {
 public:
  gpuyard::kube::Answer write_event(const NodeEvent& event) override {
    ++calls;
    if (on_request) on_request();
    if (fails_with && !carries_out) return answer(*fails_with);
    if (!numbers_.insert(event.number).second) return answer(Outcome::already_exists);
    reasons.push_back(event.event.reason);
    uids.push_back(event.node_uid);
    return answer(fails_with.value_or(Outcome::ok));
  }

  std::optional<Outcome> fails_with;
  bool carries_out = false;  // what fails, so that only its answer is lost
  std::function<void()> on_request;
  std::vector<std::string> reasons;
  std::vector<std::string> uids;
  int calls = 0;

 private:
  // As a policy's refusal, it names the Event.
  gpuyard::kube::Answer answer(Outcome outcome) const {
    return {.outcome = outcome,
            .message = outcome == Outcome::ok ? "" : fmt::format("no event {}", calls)};
  }

  std::set<std::uint64_t> numbers_;
};

class KubeEventReporter : public testing::Test {
 protected:
  KubeEventReporter() {
    report_.verdicts.emplace();
    for (const char* const uuid : {"GPU-a", "GPU-b"}) {
      protocol::GpuVerdict& gpu = report_.verdicts->gpus.emplace_back();
      gpu.uuid = uuid;
      gpu.verdict = Verdict::good;
    }
    report_.verdicts->count = report_.verdicts->gpus.size();
    start();
  }

  void start() {
    reporter_.reset();
    file_ = std::make_unique<MemoryFile>(directory_.path() + "/memory.json");
    reporter_ = std::make_unique<EventReporter>(
        cluster_, *file_, AgentEnvironment{[this] { return now_; }, [] { return 0.0; }});
  }
  void set(std::size_t gpu, Verdict verdict) {
    report_.verdicts->gpus.at(gpu).verdict = verdict;
    report_.verdicts->gpus.at(gpu).rule.reset();
    if (verdict == Verdict::bad) report_.verdicts->gpus.at(gpu).rule = "xid-fatal";
  }
  void advance(Duration time) {
    now_.boot += time;
    now_.wall += std::chrono::duration_cast<std::chrono::milliseconds>(time);
  }
  // A round a second, as the agent's loop has them.
  void pass(Duration time, bool daemon_answers = true) {
    for (const TimePoint end = now_.boot + time; now_.boot < end;) {
      advance(seconds(1));
      if (daemon_answers) report_.answered_at = now_.boot;
      reporter_->run_round(report_, uid_);
    }
  }

  ScratchDirectory directory_;
  CapturedLog log_;
  FakeEvents cluster_;
  DaemonReport report_;
  std::string uid_ = "u1";
  Moment now_{TimePoint(std::chrono::hours(9)), WallTime(std::chrono::hours(500000))};
  std::unique_ptr<MemoryFile> file_;
  std::unique_ptr<EventReporter> reporter_;
};

TEST_F(KubeEventReporter, AlertIsReportedOnceAtItsBeginAndEnd) {
  pass(seconds(10));
  EXPECT_EQ(cluster_.calls, 0);
  set(0, Verdict::bad);
  pass(minutes(10));
  EXPECT_THAT(cluster_.reasons, ElementsAre("XidFatal"));
  set(0, Verdict::good);
  pass(minutes(10));
  EXPECT_THAT(cluster_.reasons, ElementsAre("XidFatal", "GPUHealthy"));
  EXPECT_EQ(cluster_.calls, 2);
  EXPECT_EQ(count_lines("INFO wrote the event GPUHealthy: GPU 0 (GPU-a) is healthy"), 1);
}

TEST_F(KubeEventReporter, EventsOfOneRoundAreWrittenAtOnce) {
  set(0, Verdict::bad);
  set(1, Verdict::bad);
  pass(seconds(1));
  EXPECT_THAT(cluster_.reasons, ElementsAre("XidFatal", "XidFatal"));
}

TEST_F(KubeEventReporter, SlowServerEndsTheRound) {
  set(0, Verdict::bad);
  set(1, Verdict::bad);
  cluster_.on_request = [&] { advance(kMaxEventTime); };
  pass(seconds(1));
  EXPECT_EQ(cluster_.calls, 1);
  pass(seconds(1));
  EXPECT_EQ(cluster_.calls, 2);
}

TEST_F(KubeEventReporter, RestartedAgentReportsNothingTwice) {
  set(0, Verdict::bad);
  pass(seconds(1));
  start();
  pass(seconds(5));
  EXPECT_THAT(cluster_.reasons, SizeIs(1));
  set(0, Verdict::good);
  start();
  pass(seconds(5));
  EXPECT_THAT(cluster_.reasons, ElementsAre("XidFatal", "GPUHealthy"));
}

// The next agent cannot know whether the server has the Event.
TEST_F(KubeEventReporter, RestartBeforeTheResponseCreatesNoDuplicateEvent) {
  set(0, Verdict::bad);
  cluster_.fails_with = Outcome::unreachable;
  cluster_.carries_out = true;
  pass(seconds(1));
  cluster_.fails_with.reset();
  start();
  pass(minutes(5));
  EXPECT_THAT(cluster_.reasons, ElementsAre("XidFatal"));
}

TEST_F(KubeEventReporter, EventWhoseAnswerIsLostIsWrittenOnce) {
  set(0, Verdict::bad);
  cluster_.fails_with = Outcome::unreachable;
  cluster_.carries_out = true;
  pass(seconds(10));
  cluster_.fails_with.reset();
  pass(minutes(2));
  EXPECT_THAT(cluster_.reasons, ElementsAre("XidFatal"));
  set(0, Verdict::good);
  pass(seconds(1));
  EXPECT_THAT(cluster_.reasons, ElementsAre("XidFatal", "GPUHealthy"));
}

// The first request is carried out, but its response is lost. The retries fail with the outcome.
class KubeEventReporterRetry : public KubeEventReporter,
                               public testing::WithParamInterface<Outcome> {};

TEST_P(KubeEventReporterRetry, CreatesNoDuplicateEvent) {
  set(0, Verdict::bad);
  cluster_.fails_with = Outcome::unreachable;
  cluster_.carries_out = true;
  pass(seconds(1));
  cluster_.fails_with = GetParam();
  cluster_.carries_out = false;
  pass(seconds(10));
  cluster_.fails_with.reset();
  pass(minutes(6));
  EXPECT_THAT(cluster_.reasons, ElementsAre("XidFatal"));
}
// An API server that has just started may not have loaded the roles yet, and forbids requests.
INSTANTIATE_TEST_SUITE_P(Outcomes, KubeEventReporterRetry,
                         testing::Values(Outcome::throttled, Outcome::forbidden));

TEST_F(KubeEventReporter, EventThatDidNotArriveIsSentAgain) {
  set(0, Verdict::bad);
  cluster_.fails_with = Outcome::unreachable;
  pass(minutes(10));
  // After 1, 2, 4, 8, 16 and then every 30 s, as its half is without a random part.
  EXPECT_GE(cluster_.calls, 20);
  EXPECT_LE(cluster_.calls, 25);
  EXPECT_EQ(count_lines("an event was not written"), 1);
  cluster_.fails_with.reset();
  pass(seconds(31));
  EXPECT_THAT(cluster_.reasons, ElementsAre("XidFatal"));
  EXPECT_EQ(count_lines("events are written again"), 1);
}

TEST_F(KubeEventReporter, ForbiddenEventIsTriedEveryFiveMinutesAndLoggedOnce) {
  set(0, Verdict::bad);
  cluster_.fails_with = Outcome::forbidden;
  pass(minutes(20));
  EXPECT_EQ(cluster_.calls, 4);
  EXPECT_EQ(count_lines("an event was not written"), 1);
  cluster_.fails_with.reset();
  pass(seconds(1));
  EXPECT_THAT(cluster_.reasons, ElementsAre("XidFatal"));
}

TEST_F(KubeEventReporter, AlertThatEndsWhileEventsAreRefusedIsNeverWritten) {
  set(0, Verdict::bad);
  cluster_.fails_with = Outcome::forbidden;
  pass(seconds(1));
  set(0, Verdict::good);
  cluster_.fails_with.reset();
  pass(minutes(10));
  EXPECT_THAT(cluster_.reasons, IsEmpty());
}

TEST_F(KubeEventReporter, SilentDaemonGivesNoEvent) {
  set(0, Verdict::bad);
  pass(seconds(1));
  pass(minutes(5), false);
  EXPECT_THAT(cluster_.reasons, SizeIs(1));
}

TEST_F(KubeEventReporter, ClusterWithoutNodeGetsNoEvent) {
  set(0, Verdict::bad);
  uid_.clear();
  pass(minutes(1));
  EXPECT_EQ(cluster_.calls, 0);
}

TEST_F(KubeEventReporter, NodeMadeAgainGetsItsOwnEvents) {
  set(0, Verdict::bad);
  pass(seconds(1));
  uid_ = "u2";
  pass(minutes(1));
  EXPECT_THAT(cluster_.reasons, ElementsAre("XidFatal", "XidFatal"));
  EXPECT_THAT(cluster_.uids, ElementsAre("u1", "u2"));
}

TEST_F(KubeEventReporter, TwentyEventsAnHourAreWritten) {
  for (int i = 0; i < 60; ++i) {
    set(0, i % 2 == 0 ? Verdict::bad : Verdict::good);
    pass(seconds(10));
  }
  EXPECT_THAT(cluster_.reasons, SizeIs(kMaxEvents));
  EXPECT_EQ(count_lines("the limit of 20 events an hour"), 1);
  set(0, Verdict::bad);
  pass(minutes(49));
  EXPECT_THAT(cluster_.reasons, SizeIs(kMaxEvents));
  pass(minutes(2));
  EXPECT_THAT(cluster_.reasons, SizeIs(kMaxEvents + 1)) << "what is so now, and no more";
  EXPECT_EQ(cluster_.reasons.back(), "XidFatal");
  EXPECT_EQ(count_lines("the limit of 20 events an hour"), 1);
}

}  // namespace
}  // namespace gpuyard::cli::kube
