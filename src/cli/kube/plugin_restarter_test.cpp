#include "cli/kube/plugin_restarter.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/scratch_directory_for_tests.h"
#include "cli/kube/log_lines_for_tests.h"

namespace gpuyard::cli::kube {
namespace {

using gpuyard::kube::Outcome;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr WallTime kNoon{std::chrono::hours(1'000'000)};
constexpr Duration kSecond = std::chrono::seconds(1);
constexpr Duration kMinute = std::chrono::minutes(1);
constexpr Duration kHour = std::chrono::hours(1);

PluginLabel label_of_plugin() {
  return {"gpu-operator", "app", "plugin"};
}

SeenPod pod_of_plugin() {
  return {.namespace_name = "gpu-operator",
          .name = "plugin-x7k2p",
          .uid = "u1",
          .node = "n1",
          .started_at = kNoon - std::chrono::hours(1),
          .is_of_daemon_set = true};
}

protocol::GpuVerdicts two_good_gpus() {
  protocol::GpuVerdicts verdicts;
  verdicts.gpus.resize(2);
  verdicts.gpus[0].uuid = "GPU-0";
  verdicts.gpus[1].uuid = "GPU-1";
  verdicts.gpus[1].index = 1;
  for (protocol::GpuVerdict& gpu : verdicts.gpus) gpu.verdict = Verdict::good;
  verdicts.count = 2;
  return verdicts;
}

// --- Which alerts count ---

protocol::Alert plugin_alert(const std::string& uuid) {
  protocol::Alert alert;
  alert.rule = "plugin-disagrees";
  alert.device.emplace().uuid = uuid;
  return alert;
}

TEST(KubeDisagreeingGpus, GpusOfTheFiringAlertAreFound) {
  protocol::Alerts alerts;
  alerts.alerts = {plugin_alert("GPU-0"), plugin_alert("GPU-1")};
  alerts.alerts.emplace_back(plugin_alert("GPU-2")).rule = "xid-fatal";
  alerts.alerts.emplace_back(plugin_alert("GPU-3")).device.reset();
  EXPECT_THAT(disagreeing_gpus(alerts), ElementsAre("GPU-0", "GPU-1"));
}

TEST(KubeDisagreeingGpus, ResolvedAcknowledgedAndInhibitedAlertsDoNotCount) {
  protocol::Alerts alerts;
  alerts.alerts = {plugin_alert("GPU-0"), plugin_alert("GPU-1"), plugin_alert("GPU-2")};
  alerts.alerts[0].state = andon::AlertState::resolved;
  alerts.alerts[1].acknowledged.emplace().by = "alice";
  alerts.alerts[2].inhibited_by = "gpu-lost";
  EXPECT_THAT(disagreeing_gpus(alerts), IsEmpty());
}

// --- Which pod may be deleted ---

Result<SeenPod> choose(std::vector<SeenPod> pods, bool is_last = true) {
  return choose_plugin_pod({std::move(pods), is_last}, label_of_plugin(), "n1", kNoon);
}

TEST(KubePluginPod, OnlyPodOfTheNodeIsChosen) {
  const auto pod = choose({pod_of_plugin()});
  ASSERT_TRUE(pod) << pod.error().text();
  EXPECT_EQ(*pod, pod_of_plugin());
}

// A server that ignores the selector lists others.
TEST(KubePluginPod, PodOfAnotherNodeIsNeverChosen) {
  SeenPod other = pod_of_plugin();
  other.node = "n2";
  EXPECT_THAT(choose({other}).error().text(), HasSubstr("node n1 has no pod with the label app="));
  other.node = "";
  EXPECT_FALSE(choose({other}));
}

TEST(KubePluginPod, PodOfAnotherNamespaceIsNeverChosen) {
  SeenPod other = pod_of_plugin();
  other.namespace_name = "kube-system";
  EXPECT_FALSE(choose({other}));
}

TEST(KubePluginPod, SeveralPodsAreNotThePlugin) {
  SeenPod other = pod_of_plugin();
  other.name = "exporter-abcde";
  EXPECT_EQ(choose({pod_of_plugin(), other}).error().code, Errc::conflict);
  EXPECT_EQ(choose({pod_of_plugin()}, false).error().code, Errc::conflict) << "the list goes on";
}

TEST(KubePluginPod, PodThatIsBeingDeletedIsLeftAlone) {
  SeenPod pod = pod_of_plugin();
  pod.is_being_deleted = true;
  EXPECT_EQ(choose({pod}).error().code, Errc::busy);
  EXPECT_EQ(choose({pod_of_plugin(), pod}).error().code, Errc::busy);
}

TEST(KubePluginPod, YoungPodIsLeftAlone) {
  SeenPod pod = pod_of_plugin();
  pod.started_at = kNoon - std::chrono::minutes(5) + std::chrono::seconds(1);
  EXPECT_EQ(choose({pod}).error().code, Errc::busy);
  EXPECT_THAT(choose({pod}).error().text(), HasSubstr("started less than 5 min ago"));
  pod.started_at = kNoon + std::chrono::hours(1);  // the clock was set
  EXPECT_EQ(choose({pod}).error().code, Errc::busy);
  pod.started_at.reset();
  EXPECT_EQ(choose({pod}).error().code, Errc::busy);
  pod.started_at = kNoon - std::chrono::minutes(5);
  EXPECT_TRUE(choose({pod}));
}

TEST(KubePluginPod, PodThatNoDaemonSetReplacesIsLeftAlone) {
  SeenPod pod = pod_of_plugin();
  pod.is_of_daemon_set = false;
  EXPECT_EQ(choose({pod}).error().code, Errc::conflict);
}

// --- The rounds ---

class FakePluginPods final : public PluginPodsView {
 public:
  gpuyard::kube::Answer list(PodPage& page) override {
    ++lists;
    if (list_fails_with) return {.outcome = *list_fails_with, .message = "list refused"};
    page.pods = pods;
    return {.outcome = Outcome::ok};
  }
  gpuyard::kube::Answer remove(const SeenPod& pod) override {
    removed.push_back(pod);
    if (on_remove) on_remove();
    if (remove_fails_with) return {.outcome = *remove_fails_with, .message = "delete refused"};
    return {.outcome = Outcome::ok};
  }

  std::vector<SeenPod> pods = {pod_of_plugin()};
  std::vector<SeenPod> removed;
  std::optional<Outcome> list_fails_with;
  std::optional<Outcome> remove_fails_with;
  std::function<void()> on_remove;
  int lists = 0;
};

class FakePluginAlerts final : public PluginAlertView {
 public:
  Result<std::set<std::string>> fetch_plugin_alerts() override {
    ++calls;
    if (fails_with) return *fails_with;
    return firing;
  }

  std::set<std::string> firing = {"GPU-0"};
  std::optional<Error> fails_with;
  int calls = 0;
};

class KubePluginRestarter : public testing::Test {
 protected:
  KubePluginRestarter() {
    std::filesystem::create_directory(place_);
    start();
  }

  void start() {
    restarter_.reset();
    file_ = std::make_unique<MemoryFile>(place_ + "/memory.json");
    restarter_ = std::make_unique<PluginRestarter>(
        "n1", label_of_plugin(), pods_, daemon_, *file_,
        AgentEnvironment{[this] { return Moment{now_, kNoon}; }, [] { return 0.0; }});
  }
  // A round a second, as the agent's loop has them.
  void pass(Duration time, bool daemon_answers = true) {
    for (const TimePoint end = now_ + time; now_ < end; now_ += kSecond) {
      restarter_->run_round(daemon_answers ? &verdicts_ : nullptr, hidden_);
    }
  }
  const std::vector<TimePoint>& restarts() { return file_->memory().plugin_restarts; }

  CapturedLog log_;
  TimePoint now_{std::chrono::hours(100)};
  protocol::GpuVerdicts verdicts_ = two_good_gpus();
  std::set<std::string> hidden_ = {"GPU-0"};
  FakePluginPods pods_;
  FakePluginAlerts daemon_;
  ScratchDirectory directory_;
  std::string place_ = directory_.path() + "/memory";
  std::unique_ptr<MemoryFile> file_;
  std::unique_ptr<PluginRestarter> restarter_;
};

TEST_F(KubePluginRestarter, AlertDeletesThePluginsPod) {
  pass(2 * kSecond);
  EXPECT_THAT(pods_.removed, ElementsAre(pod_of_plugin()));
  EXPECT_THAT(CapturedLog::lines(),
              ElementsAre("INFO deleted pod gpu-operator/plugin-x7k2p of node n1 to restart the "
                          "device plugin: the alert plugin-disagrees fires for GPU-0"));
}

// So that the daemon is read between the two requests.
TEST_F(KubePluginRestarter, RoundSendsOneRequest) {
  pass(kSecond);
  EXPECT_EQ(pods_.lists, 1);
  EXPECT_THAT(pods_.removed, IsEmpty());
  pass(kSecond);
  EXPECT_EQ(pods_.lists, 1);
  EXPECT_THAT(pods_.removed, SizeIs(1));
}

TEST_F(KubePluginRestarter, NoRequestWhileNoGpuIsHidden) {
  hidden_.clear();
  pass(kHour);
  EXPECT_EQ(daemon_.calls, 0);
  EXPECT_EQ(pods_.lists, 0);
}

// The plugin hides it rightly.
TEST_F(KubePluginRestarter, NoRequestWhileTheHiddenGpuIsNotHealthy) {
  verdicts_.gpus[0].verdict = Verdict::bad;
  pass(kMinute);
  verdicts_.gpus[0].verdict = Verdict::unknown;
  pass(kMinute);
  verdicts_.gpus[0].verdict = Verdict::good;
  verdicts_.gpus[0].cordoned = "its fan";
  pass(kMinute);
  EXPECT_EQ(daemon_.calls, 0);
  EXPECT_THAT(CapturedLog::lines(), IsEmpty());
}

TEST_F(KubePluginRestarter, AlertsAreReadEvery15Seconds) {
  daemon_.firing.clear();
  pass(kMinute);
  EXPECT_EQ(daemon_.calls, 4);
  EXPECT_EQ(pods_.lists, 0);
}

TEST_F(KubePluginRestarter, AlertOfAnotherGpuDeletesNothing) {
  daemon_.firing = {"GPU-1"};  // which the plugin has just offered again
  pass(kMinute);
  EXPECT_EQ(pods_.lists, 0);
}

TEST_F(KubePluginRestarter, SilentDaemonStopsTheRestart) {
  pass(kSecond);
  ASSERT_EQ(pods_.lists, 1);
  pass(kMinute, false);
  EXPECT_THAT(pods_.removed, IsEmpty());
  pass(kSecond);
  EXPECT_THAT(pods_.removed, IsEmpty()) << "the pod is listed anew";
  EXPECT_EQ(pods_.lists, 2);
  pass(kSecond);
  EXPECT_THAT(pods_.removed, SizeIs(1));
}

TEST_F(KubePluginRestarter, GpuThatIsOfferedAgainStopsTheRestart) {
  hidden_ = {"GPU-0", "GPU-1"};
  daemon_.firing = {"GPU-0", "GPU-1"};
  pass(kSecond);
  hidden_ = {"GPU-1"};
  pass(kSecond);
  EXPECT_THAT(pods_.removed, IsEmpty());
}

// The Node would be tainted as soon as the plugin offers it.
TEST_F(KubePluginRestarter, FlappingGpuIsNoReasonToRestart) {
  file_->memory().flaps["GPU-0"].is_flapping = true;
  pass(kMinute);
  EXPECT_EQ(pods_.lists, 0);
  EXPECT_EQ(count_lines("not restarted"), 0);
  file_->memory().flaps.clear();
  pass(kMinute);
  EXPECT_THAT(pods_.removed, SizeIs(1));
}

TEST_F(KubePluginRestarter, MissingVerdictStopsTheRestart) {
  verdicts_.count = 3;
  pass(kMinute);
  verdicts_.count = 2;
  verdicts_.driver_error = "NVML: driver not loaded";
  pass(kMinute);
  EXPECT_EQ(pods_.lists, 0);
  EXPECT_EQ(count_lines("not restarted: the daemon has no verdict on one of the GPUs"), 1);
  EXPECT_EQ(count_lines("not restarted: the driver is not available"), 1);
}

// A plugin that starts offers all GPUs, and notices no earlier fault.
TEST_F(KubePluginRestarter, BadGpuBesideItStopsTheRestart) {
  verdicts_.gpus[1].verdict = Verdict::bad;
  pass(kMinute);
  EXPECT_EQ(pods_.lists, 0);
  EXPECT_EQ(count_lines("not restarted: GPU 1 is bad, and a plugin that starts would offer it"), 1);
  verdicts_.gpus[1].verdict = Verdict::unknown;
  pass(kMinute);
  EXPECT_EQ(pods_.lists, 0);
  verdicts_.gpus[1].verdict = Verdict::good;
  pass(kMinute);
  EXPECT_THAT(pods_.removed, SizeIs(1));
}

TEST_F(KubePluginRestarter, GpuThatTurnsBadStopsTheRestart) {
  pass(kSecond);
  ASSERT_EQ(pods_.lists, 1);
  verdicts_.gpus[1].verdict = Verdict::bad;
  pass(kMinute);
  EXPECT_THAT(pods_.removed, IsEmpty());
}

TEST_F(KubePluginRestarter, CordonedGpuStopsTheRestartOnlyIfHidden) {
  verdicts_.gpus[1].cordoned = "its fan";
  hidden_ = {"GPU-0", "GPU-1"};
  pass(kMinute);
  EXPECT_EQ(pods_.lists, 0);
  EXPECT_EQ(count_lines("GPU 1 is cordoned"), 1);
  hidden_ = {"GPU-0"};
  pass(kMinute);
  EXPECT_THAT(pods_.removed, SizeIs(1));
}

TEST_F(KubePluginRestarter, MissingDriverStopsTheRestart) {
  verdicts_.driver_down = true;
  pass(kMinute);
  EXPECT_EQ(pods_.lists, 0);
}

TEST_F(KubePluginRestarter, NextRestartIsAnHourLater) {
  pass(2 * kSecond);
  ASSERT_THAT(pods_.removed, SizeIs(1));
  const int calls = daemon_.calls;
  pass(kHour - 2 * kSecond);
  EXPECT_THAT(pods_.removed, SizeIs(1));
  EXPECT_EQ(daemon_.calls, calls) << "nothing to do with an answer";
  pass(3 * kSecond);
  EXPECT_THAT(pods_.removed, SizeIs(2));
}

TEST_F(KubePluginRestarter, RestartedAgentRemembersTheHour) {
  pass(2 * kSecond);
  start();
  pass(kHour - 2 * kSecond);
  EXPECT_THAT(pods_.removed, SizeIs(1));
}

// The agent may die before the answer.
TEST_F(KubePluginRestarter, RestartIsRecordedBeforeItIsRequested) {
  std::vector<TimePoint> recorded;
  pods_.on_remove = [&] {
    recorded = MemoryFile(place_ + "/memory.json").memory().plugin_restarts;
  };
  pass(2 * kSecond);
  EXPECT_THAT(recorded, ElementsAre(now_ - kSecond));
}

TEST_F(KubePluginRestarter, RestartWhoseAnswerIsLostCounts) {
  pods_.remove_fails_with = Outcome::unreachable;
  pass(kHour);
  EXPECT_THAT(pods_.removed, SizeIs(1));
  EXPECT_THAT(restarts(), SizeIs(1));
  EXPECT_EQ(count_lines("WARNING pod gpu-operator/plugin-x7k2p of node n1 may have been deleted"),
            1);
}

TEST_F(KubePluginRestarter, RestartThatCannotBeRecordedIsNotMade) {
  std::filesystem::remove_all(place_);
  pass(kMinute);
  EXPECT_THAT(pods_.removed, IsEmpty());
  EXPECT_EQ(count_lines("not restarted: the restart cannot be recorded"), 1);
  std::filesystem::create_directory(place_);
  pass(kMinute);
  EXPECT_THAT(pods_.removed, SizeIs(1));
}

TEST_F(KubePluginRestarter, ThreeRestartsInADayAreTheLast) {
  pass(20 * kHour);
  EXPECT_THAT(pods_.removed, SizeIs(3));
  EXPECT_EQ(count_lines("it was restarted 3 times within 24 h, and hides GPU-0 again"), 1);
  EXPECT_EQ(count_lines("`kubectl logs --namespace gpu-operator --selector app=plugin`"), 1);
  pass(5 * kHour);
  EXPECT_THAT(pods_.removed, SizeIs(4)) << "the first was a day ago";
  EXPECT_THAT(restarts(), SizeIs(3)) << "older ones are dropped";
}

TEST_F(KubePluginRestarter, ForbiddenListIsRepeatedAfterFiveMinutesAndLoggedOnce) {
  pods_.list_fails_with = Outcome::forbidden;
  pass(15 * kMinute);
  EXPECT_EQ(pods_.lists, 3);
  EXPECT_EQ(count_lines("WARNING list refused; the device plugin is not restarted"), 1);
  pods_.list_fails_with.reset();
  pass(kMinute);
  EXPECT_THAT(pods_.removed, SizeIs(1));
}

TEST_F(KubePluginRestarter, ForbiddenDeleteIsNoRestart) {
  pods_.remove_fails_with = Outcome::forbidden;
  pass(4 * kMinute);
  EXPECT_THAT(pods_.removed, SizeIs(1));
  EXPECT_THAT(restarts(), IsEmpty());
  pass(7 * kMinute);
  EXPECT_THAT(pods_.removed, SizeIs(3)) << "every 5 minutes";
  EXPECT_EQ(count_lines("WARNING delete refused"), 1);
  pods_.remove_fails_with.reset();
  pass(5 * kMinute);
  EXPECT_THAT(pods_.removed, SizeIs(4));
  EXPECT_THAT(restarts(), SizeIs(1));
}

// Its DaemonSet was updated in between.
TEST_F(KubePluginRestarter, PodThatWasReplacedIsLookedForAgain) {
  pods_.remove_fails_with = Outcome::conflict;
  pass(2 * kSecond);
  EXPECT_THAT(restarts(), IsEmpty());
  pods_.remove_fails_with.reset();
  pass(20 * kSecond);
  EXPECT_THAT(pods_.removed, SizeIs(2));
  EXPECT_EQ(count_lines("WARNING"), 0);
}

TEST_F(KubePluginRestarter, UnreachableServerIsAskedLessAndLessOften) {
  pods_.list_fails_with = Outcome::unreachable;
  pass(10 * kMinute);
  EXPECT_LE(pods_.lists, 25);
  EXPECT_GE(pods_.lists, 10);
  EXPECT_EQ(count_lines("list refused"), 1);
}

TEST_F(KubePluginRestarter, WrongLabelDeletesNothingAndIsLoggedOnce) {
  pods_.pods.push_back(pod_of_plugin());
  pass(kHour);
  EXPECT_EQ(count_lines("node n1 has several pods with the label app=plugin"), 1);
  pods_.pods.clear();
  pass(kHour);
  EXPECT_EQ(count_lines("node n1 has no pod with the label app=plugin in namespace gpu-operator"),
            1);
  EXPECT_THAT(pods_.removed, IsEmpty());
}

TEST_F(KubePluginRestarter, DaemonThatDoesNotAnswerIsLoggedOnceAndDeletesNothing) {
  daemon_.fails_with = Error{Errc::timed_out, "no answer in time"};
  pass(kMinute);
  EXPECT_EQ(daemon_.calls, 4);
  EXPECT_EQ(pods_.lists, 0);
  EXPECT_EQ(count_lines("no answer in time"), 1);
  daemon_.fails_with = Error{Errc::denied, "no right"};
  pass(10 * kMinute);
  EXPECT_EQ(daemon_.calls, 6);
}

}  // namespace
}  // namespace gpuyard::cli::kube
