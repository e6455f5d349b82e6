#include "cli/kube/pod_reporter.h"

#include <memory>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/kube/log_lines_for_tests.h"
#include "cli/kube/pod_views_for_tests.h"

namespace gpuyard::cli::kube {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

constexpr const char* kReporterPod = "gpuyard/agent";

class KubePodReporter : public testing::Test {
 protected:
  KubePodReporter() {
    kubelet_.pods[kReporterPod] = {};
    start();
  }

  void start() {
    reporter_ =
        std::make_unique<PodReporter>(kReporterPod, kubelet_, daemon_, [this] { return now_; });
  }
  // A round a second, as the agent's loop has them.
  void pass(Duration time, bool daemon_answers = true) {
    for (const TimePoint end = now_ + time; now_ < end; now_ += seconds(1)) {
      reporter_->run_round(devices_, daemon_answers);
    }
  }

  CapturedLog log_;
  TimePoint now_{std::chrono::hours(1)};
  FakePodList kubelet_;
  FakePodLeases daemon_;
  std::vector<SliceDevice> devices_;
  std::unique_ptr<PodReporter> reporter_;
};

TEST_F(KubePodReporter, PodHasALeaseUntilItIsGone) {
  kubelet_.pods["ml/a"] = {"GPU-0"};
  pass(seconds(1));
  EXPECT_THAT(daemon_.leased, ElementsAre(Pair("ml/a", ElementsAre("GPU-0"))));
  EXPECT_THAT(CapturedLog::lines(), ElementsAre("INFO reported pod ml/a with GPU-0"));
  kubelet_.pods.erase("ml/a");
  pass(seconds(9));
  EXPECT_THAT(daemon_.leased, SizeIs(1)) << "one list is not enough";
  pass(seconds(2));
  EXPECT_THAT(daemon_.leased, IsEmpty());
  EXPECT_THAT(CapturedLog::lines(), Contains("INFO reported that pod ml/a is gone"));
}

TEST_F(KubePodReporter, QuietNodeCostsOneListInFiveSeconds) {
  kubelet_.pods["ml/a"] = {"GPU-0"};
  pass(minutes(1));
  EXPECT_EQ(kubelet_.calls, 12);
  EXPECT_EQ(daemon_.calls, 1);
  EXPECT_EQ(daemon_.fetches, 1);
  pass(minutes(5));
  EXPECT_EQ(daemon_.fetches, 2);
  EXPECT_EQ(daemon_.calls, 2) << "so that the daemon knows that it still has reports";
  EXPECT_EQ(count_lines("reported pod"), 1);
}

// The daemon has the pods of its last life, and waits for a report of this one.
TEST_F(KubePodReporter, RestartedDaemonGetsAReportOfAPodThatItHas) {
  daemon_.leased = {{"ml/a", {"GPU-0"}}, {"ml/b", {"GPU-1"}}};
  kubelet_.pods["ml/a"] = {"GPU-0"};
  kubelet_.pods["ml/b"] = {"GPU-1"};
  pass(seconds(20));
  EXPECT_EQ(daemon_.calls, 1);
  pass(seconds(1), false);
  pass(seconds(20));
  EXPECT_EQ(daemon_.calls, 2);
  EXPECT_THAT(daemon_.leased, SizeIs(2));
}

TEST_F(KubePodReporter, NextAgentEndsWhatIsGone) {
  daemon_.leased = {{"ml/a", {"GPU-0"}}, {"ml/b", {"GPU-1"}}};
  kubelet_.pods["ml/b"] = {"GPU-1"};
  pass(seconds(11));
  EXPECT_THAT(daemon_.accepted, Contains(PodReport(EndPod{"ml/a"})));
  EXPECT_THAT(daemon_.leased, ElementsAre(Pair("ml/b", ElementsAre("GPU-1"))));
}

TEST_F(KubePodReporter, DaemonThatWasDownGetsTheLatestPods) {
  kubelet_.pods["ml/a"] = {"GPU-0"};
  pass(seconds(20), false);
  EXPECT_EQ(kubelet_.calls, 0) << "nothing to do with a list";
  kubelet_.pods.erase("ml/a");
  kubelet_.pods["ml/b"] = {"GPU-0"};
  pass(seconds(1));
  EXPECT_THAT(daemon_.leased, ElementsAre(Pair("ml/b", ElementsAre("GPU-0"))));
  daemon_.leased.clear();  // it starts without its state
  pass(seconds(1), false);
  pass(seconds(5));
  EXPECT_THAT(daemon_.leased, ElementsAre(Pair("ml/b", ElementsAre("GPU-0"))));
}

TEST_F(KubePodReporter, ReportWithoutAnswerIsReadBack) {
  kubelet_.pods["ml/a"] = {"GPU-0"};
  daemon_.loses_answer = true;
  pass(seconds(1));
  daemon_.loses_answer = false;
  pass(seconds(20));
  EXPECT_EQ(daemon_.calls, 2) << "the second one is repeated";
  EXPECT_EQ(daemon_.fetches, 2);
  EXPECT_THAT(CapturedLog::lines(), Contains("INFO the daemon accepts reports of pods again"));
}

TEST_F(KubePodReporter, FailureEndsTheRound) {
  for (int i = 0; i < 5; ++i) kubelet_.pods[fmt::format("ml/{}", i)] = {fmt::format("GPU-{}", i)};
  daemon_.fails_with = Error{Errc::unavailable, "the disk is full"};
  pass(seconds(75));
  EXPECT_EQ(daemon_.calls, 4) << "one for each list, after 5, 10, 20 and 40 s";
  EXPECT_EQ(count_lines("the disk is full"), 1);
}

TEST_F(KubePodReporter, OldDaemonIsAskedEveryFiveMinutesAndLoggedOnce) {
  kubelet_.pods["ml/a"] = {"GPU-0"};
  daemon_.fetch_fails_with = Error{Errc::not_found, "no such route"};
  pass(minutes(15));
  EXPECT_EQ(daemon_.fetches, 3);
  EXPECT_EQ(daemon_.calls, 0);
  EXPECT_EQ(count_lines("the daemon is older than this program"), 1);
  daemon_.fetch_fails_with.reset();
  pass(minutes(5));
  EXPECT_THAT(daemon_.leased, SizeIs(1));
}

TEST_F(KubePodReporter, DaemonThatPermitsNoReportsIsAskedEveryFiveMinutes) {
  kubelet_.pods["ml/a"] = {"GPU-0"};
  daemon_.fails_with = Error{Errc::denied, "only root may do this"};
  pass(minutes(10));
  EXPECT_EQ(daemon_.calls, 2);
  EXPECT_EQ(count_lines("only root may do this"), 1);
}

TEST_F(KubePodReporter, RefusedPodHoldsUpNoOther) {
  kubelet_.pods["ml/a"] = {"GPU-7"};
  kubelet_.pods["ml/b"] = {"GPU-0"};
  daemon_.lost_gpus = {"GPU-7"};
  pass(minutes(3));
  EXPECT_THAT(daemon_.leased, ElementsAre(Pair("ml/b", ElementsAre("GPU-0"))));
  EXPECT_EQ(daemon_.calls, 4) << "ml/b once, ml/a once a minute";
  EXPECT_EQ(count_lines("refuses the report of pod ml/a"), 1);
  kubelet_.pods["ml/a"] = {"GPU-1"};
  pass(seconds(5));
  EXPECT_THAT(daemon_.leased, SizeIs(2)) << "other GPUs are reported at once";
}

TEST_F(KubePodReporter, LeaseThatEndedBeforeIsDone) {
  kubelet_.pods["ml/a"] = {"GPU-0"};
  pass(seconds(1));
  daemon_.leased.clear();  // an administrator ended it
  kubelet_.pods.erase("ml/a");
  pass(minutes(2));
  EXPECT_EQ(daemon_.calls, 2);
  EXPECT_EQ(count_lines("WARNING"), 0);
}

TEST_F(KubePodReporter, RoundIsBounded) {
  for (int i = 0; i < 40; ++i) kubelet_.pods[fmt::format("ml/{}", i)] = {fmt::format("GPU-{}", i)};
  pass(seconds(1));
  EXPECT_EQ(daemon_.calls, 16);
  pass(seconds(10));
  EXPECT_THAT(daemon_.leased, SizeIs(40));

  daemon_.leased.clear();
  daemon_.calls = 0;
  start();
  daemon_.on_report = [this](const PodReport&) { now_ += seconds(1); };
  reporter_->run_round(devices_, true);
  EXPECT_EQ(daemon_.calls, 2) << "so that the verdicts are read";
}

TEST_F(KubePodReporter, ListThatIsNotTrustedIsLoggedOnce) {
  daemon_.leased["ml/a"] = {"GPU-0"};
  kubelet_.pods = {{"ml/b", {"GPU-1"}}};
  pass(minutes(1));
  EXPECT_EQ(daemon_.calls, 0);
  EXPECT_EQ(count_lines("does not list the agent's own pod gpuyard/agent"), 1);
}

TEST_F(KubePodReporter, NoLeaseEndsWithoutKubelet) {
  daemon_.leased["ml/a"] = {"GPU-0"};
  kubelet_.answers = false;
  pass(minutes(10));
  EXPECT_EQ(daemon_.calls, 0);
}

}  // namespace
}  // namespace gpuyard::cli::kube
