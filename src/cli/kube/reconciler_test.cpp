#include "cli/kube/reconciler.h"

#include <algorithm>
#include <functional>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/scratch_directory_for_tests.h"
#include "cli/kube/api_server_for_tests.h"
#include "cli/kube/log_lines_for_tests.h"

namespace gpuyard::cli::kube {
namespace {

using gpuyard::kube::Outcome;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

// The model of the API server behind the interface of a real one.
class ModelCluster final : public ClusterView {
 public:
  explicit ModelCluster(ApiServer& server) : server_(server) {}

  gpuyard::kube::Answer read() override {
    ++reads;
    if (on_request) on_request();
    if (const auto failed = failure()) return *failed;
    seen_ = server_.read(names_);
    if (!has_node) seen_.node.reset();
    return {.outcome = Outcome::ok};
  }
  gpuyard::kube::Answer send(const Step& step) override {
    ++writes;
    if (on_request) on_request();
    if (before_write) before_write();
    if (const auto failed = failure()) return *failed;
    if (rejects && rejects(step)) return {.outcome = Outcome::forbidden, .message = "no right"};
    if (drops_writes) return {.outcome = Outcome::ok};
    const Answer answer = server_.apply(step);
    if (answer == Answer::ok) {
      seen_ = server_.read(names_);
      return {.outcome = Outcome::ok};
    }
    const auto* const creation = std::get_if<CreateRule>(&step);
    if (creation != nullptr) names_.insert(creation->rule.name);
    return {.outcome = creation != nullptr ? Outcome::already_exists : Outcome::conflict,
            .message = "conflict"};
  }
  const Seen& seen() const override { return seen_; }

  std::optional<Outcome> fails_with;
  std::optional<Duration> retry_after;
  std::function<void()> before_write;
  std::function<void()> on_request;
  std::function<bool(const Step&)> rejects;
  bool drops_writes = false;
  bool has_node = true;
  int reads = 0;
  int writes = 0;

 private:
  std::optional<gpuyard::kube::Answer> failure() const {
    if (!fails_with) return std::nullopt;
    return gpuyard::kube::Answer{
        .outcome = *fails_with, .message = "out of order", .retry_after = retry_after};
  }

  ApiServer& server_;
  std::set<std::string> names_;
  Seen seen_;
};

// Says what the model has.
class ModelKubelet final : public KubeletView {
 public:
  explicit ModelKubelet(ApiServer& server) : server_(server) {}

  std::optional<std::set<std::string>> fetch_allocatable() override {
    ++calls;
    return server_.allocatable;
  }

  int calls = 0;

 private:
  ApiServer& server_;
};

std::string log_text() {
  return fmt::format("{}", fmt::join(CapturedLog::lines(), "\n"));
}

class KubeReconciler : public testing::Test {
 protected:
  KubeReconciler() {
    settings_.node = "n1";
    server_.devices = {{"n1", "gpu.nvidia.com", "n1", "gpu-0", "GPU-a"},
                       {"n1", "gpu.nvidia.com", "n1", "gpu-1", "GPU-b"}};
    report_.answered_at = now_.boot;
    set_verdict(0, Verdict::good);
    set_verdict(1, Verdict::good);
    start();
  }

  void start() {
    file_ = std::make_unique<MemoryFile>(directory_.path() + "/memory.json");
    reconciler_ =
        std::make_unique<Reconciler>(settings_, cluster_, kubelet_, *file_,
                                     AgentEnvironment{[this] { return now_; }, [] { return 0.0; }});
  }

  void set_verdict(std::size_t gpu, Verdict verdict) {
    if (!report_.verdicts) report_.verdicts.emplace();
    auto& gpus = report_.verdicts->gpus;
    if (gpus.size() <= gpu) gpus.resize(gpu + 1);
    gpus[gpu].index = static_cast<std::uint32_t>(gpu);
    gpus[gpu].uuid = gpu == 0 ? "GPU-a" : "GPU-b";
    gpus[gpu].verdict = verdict;
    gpus[gpu].rule.reset();
    gpus[gpu].why.clear();
    if (verdict == Verdict::bad) {
      gpus[gpu].rule = "xid-fatal";
      gpus[gpu].why = fmt::format("GPU {} reported Xid 79", gpu);
    }
    report_.verdicts->count = gpus.size();
  }

  void pass(Duration time) {
    now_.boot += time;
    now_.wall += std::chrono::duration_cast<milliseconds>(time);
  }
  // A second of the agent, in which the daemon answers.
  void run_second() {
    pass(seconds(1));
    report_.answered_at = now_.boot;
    reconciler_->run_round(report_, true);
  }
  void run_seconds(int count) {
    for (int second = 0; second < count; ++second) run_second();
  }
  // The GPUs are those of a device plugin, and none has a slice.
  void offer_by_plugin() {
    server_.devices.clear();
    server_.allocatable = {"GPU-a", "GPU-b"};
  }
  bool is_node_tainted() {
    return std::ranges::count(server_.node().taints, kNodeTaintKey, &SeenTaint::key) != 0;
  }
  ConditionStatus condition() { return server_.node().condition->text.status; }

  ScratchDirectory directory_;
  CapturedLog log_;
  Settings settings_;
  ApiServer server_{"n1"};
  ModelCluster cluster_{server_};
  ModelKubelet kubelet_{server_};
  DaemonReport report_;
  Moment now_{TimePoint(std::chrono::hours(9)), WallTime(std::chrono::hours(500000))};
  std::unique_ptr<MemoryFile> file_;
  std::unique_ptr<Reconciler> reconciler_;
};

TEST_F(KubeReconciler, BadGpuIsTaintedAndFreedAgain) {
  run_second();
  EXPECT_EQ(condition(), ConditionStatus::yes);
  EXPECT_TRUE(server_.rules().empty());
  set_verdict(0, Verdict::bad);
  run_second();
  EXPECT_EQ(condition(), ConditionStatus::no);
  ASSERT_EQ(server_.rules().size(), 1U);
  EXPECT_EQ(server_.rules()[0].device, "gpu-0");
  set_verdict(0, Verdict::good);
  run_second();
  EXPECT_EQ(condition(), ConditionStatus::yes);
  EXPECT_TRUE(server_.rules().empty());
  EXPECT_EQ(cluster_.writes, 5);
}

TEST_F(KubeReconciler, NothingIsWrittenWhileNothingChanges) {
  run_second();
  const int writes = cluster_.writes;
  for (int second = 0; second < 600; ++second) run_second();
  EXPECT_EQ(cluster_.writes, writes);
  EXPECT_EQ(cluster_.reads, 3);  // at the start, and every 5 minutes less 10 % of jitter
}

// What was read some minutes ago may be untrue by now.
TEST_F(KubeReconciler, ClusterIsReadAgainBeforeAChange) {
  run_second();
  const int reads = cluster_.reads;
  server_.add_taint("team", R"({"key":"team","value":"a","effect":"NoSchedule"})");
  set_verdict(0, Verdict::bad);
  run_second();
  EXPECT_EQ(cluster_.reads, reads + 1);
  EXPECT_EQ(server_.node().taints.size(), 1U);
}

TEST_F(KubeReconciler, ErrorIsRetriedWithBackOff) {
  cluster_.fails_with = Outcome::unreachable;
  for (int second = 0; second < 600; ++second) run_second();
  // After 1, 2, 4, 8, 16 and then every 30 s, as its half is without a random part.
  EXPECT_GE(cluster_.reads, 20);
  EXPECT_LE(cluster_.reads, 25);
  EXPECT_EQ(count_lines("out of order"), 1) << log_text();
  cluster_.fails_with.reset();
  for (int second = 0; second < 31; ++second) run_second();
  EXPECT_EQ(condition(), ConditionStatus::yes);
  EXPECT_EQ(count_lines("the cluster is up to date again"), 1);
}

TEST_F(KubeReconciler, ServerThatAsksForAPauseGetsIt) {
  cluster_.fails_with = Outcome::throttled;
  cluster_.retry_after = seconds(20);
  for (int second = 0; second < 20; ++second) run_second();
  EXPECT_EQ(cluster_.reads, 1);
  run_second();
  EXPECT_EQ(cluster_.reads, 2);
}

// The latest state is sent, not each state that there has been.
TEST_F(KubeReconciler, AlertThatEndsWhileTheServerIsAwayIsNeverWritten) {
  run_second();
  cluster_.fails_with = Outcome::server_error;
  set_verdict(0, Verdict::bad);
  run_second();
  set_verdict(0, Verdict::good);
  run_second();
  cluster_.fails_with.reset();
  const int writes = cluster_.writes;
  for (int second = 0; second < 10; ++second) run_second();
  EXPECT_EQ(cluster_.writes, writes);
}

TEST_F(KubeReconciler, ConflictIsPlannedForAgainAndNotLogged) {
  settings_.taint_node = NodeTaintPolicy::any;
  start();
  run_second();
  set_verdict(0, Verdict::bad);
  int conflicts = 0;
  cluster_.before_write = [&] {
    // Another controller writes between our read and our patch, once.
    if (cluster_.writes == 4 && conflicts++ == 0) {
      server_.add_taint("team", R"({"key":"team","value":"a","effect":"NoSchedule"})");
    }
  };
  run_second();
  run_second();
  EXPECT_EQ(conflicts, 1);
  EXPECT_EQ(server_.node().taints.size(), 2U);
  EXPECT_EQ(count_lines("conflict"), 0) << log_text();
}

// A policy may refuse one device of several.
TEST_F(KubeReconciler, RejectedStepHoldsUpNoOther) {
  settings_.taint_node = NodeTaintPolicy::any;
  start();
  cluster_.rejects = [](const Step& step) {
    const auto* const rule = std::get_if<CreateRule>(&step);
    return rule != nullptr && rule->rule.device == "gpu-0";
  };
  set_verdict(0, Verdict::bad);
  set_verdict(1, Verdict::bad);
  for (int second = 0; second < 100; ++second) run_second();
  EXPECT_EQ(condition(), ConditionStatus::no);
  ASSERT_EQ(server_.rules().size(), 1U);
  EXPECT_EQ(server_.rules()[0].device, "gpu-1");
  EXPECT_EQ(server_.node().taints.size(), 1U);
  EXPECT_EQ(count_lines("no right"), 1) << log_text();
  EXPECT_LE(cluster_.writes, 12);
  cluster_.rejects = nullptr;
  for (int second = 0; second < 31; ++second) run_second();
  EXPECT_EQ(server_.rules().size(), 2U);
}

// As by a webhook that changes what it admits.
TEST_F(KubeReconciler, ServerThatKeepsNothingIsAskedLessAndLess) {
  cluster_.drops_writes = true;
  for (int second = 0; second < 100; ++second) run_second();
  EXPECT_LE(cluster_.writes, 9);
  EXPECT_EQ(count_lines("did not keep what was written"), 1) << log_text();
}

// The daemon is not read meanwhile, but it is not silent.
TEST_F(KubeReconciler, SlowServerMakesNoDaemonSilent) {
  run_second();
  set_verdict(0, Verdict::bad);
  cluster_.on_request = [&] { pass(seconds(40)); };
  run_second();
  EXPECT_EQ(condition(), ConditionStatus::no);
  EXPECT_TRUE(server_.rules().empty()) << "a round ends after some seconds and a step";
  run_second();
  EXPECT_EQ(server_.rules().size(), 1U);
  EXPECT_EQ(condition(), ConditionStatus::no);
}

// The time of a round ends behind the rejection, which counts all the same.
TEST_F(KubeReconciler, RejectionBySlowServerIsRetriedWithBackOff) {
  cluster_.rejects = [](const Step& step) { return std::holds_alternative<CreateRule>(step); };
  set_verdict(0, Verdict::bad);
  set_verdict(1, Verdict::bad);
  cluster_.before_write = [&] { pass(seconds(3)); };
  for (int second = 0; second < 100; ++second) run_second();
  EXPECT_EQ(count_lines("no right"), 1) << log_text();
  EXPECT_EQ(count_lines("up to date"), 0) << log_text();
  EXPECT_LE(cluster_.writes, 20);
}

// A message may have a reading that is another each second.
TEST_F(KubeReconciler, NewMessageAloneIsWrittenOnceAMinute) {
  set_verdict(0, Verdict::bad);
  run_second();
  const int writes = cluster_.writes;
  for (int second = 0; second < 180; ++second) {
    report_.verdicts->gpus[0].why = fmt::format("GPU 0 has not responded for {} s", second);
    run_second();
  }
  EXPECT_EQ(cluster_.writes - writes, 3);
}

TEST_F(KubeReconciler, ConflictsWithoutEndAreSlowedDown) {
  settings_.taint_node = NodeTaintPolicy::any;
  start();
  run_second();
  set_verdict(0, Verdict::bad);
  cluster_.before_write = [&] { server_.touch_node(); };
  const int writes = cluster_.writes;
  for (int second = 0; second < 120; ++second) run_second();
  // The condition and the rule, and a patch of the taints for each try.
  EXPECT_LE(cluster_.writes - writes, 12);
}

TEST_F(KubeReconciler, DeletionByAdministratorOutlivesTheAgent) {
  set_verdict(0, Verdict::bad);
  run_second();
  ASSERT_EQ(server_.rules().size(), 1U);
  server_.remove_rule(server_.rules()[0].name);
  start();
  run_second();
  run_second();
  EXPECT_TRUE(server_.rules().empty());
}

// Killed after the deletion was sent: the next agent must not take it for an administrator's.
TEST_F(KubeReconciler, OwnDeletionIsNotTakenForAnAdministrators) {
  set_verdict(0, Verdict::bad);
  run_second();
  set_verdict(0, Verdict::good);
  cluster_.before_write = [&] {
    if (condition() != ConditionStatus::yes) return;  // that one is written first
    server_.remove_rule(server_.rules()[0].name);     // carried out; the answer never comes
    cluster_.fails_with = Outcome::unreachable;
  };
  run_second();
  cluster_.before_write = nullptr;
  cluster_.fails_with.reset();
  start();
  set_verdict(0, Verdict::bad);
  run_second();
  EXPECT_EQ(server_.rules().size(), 1U);
}

TEST_F(KubeReconciler, MissingNodeIsLoggedOnceAndAwaited) {
  cluster_.has_node = false;
  for (int second = 0; second < 300; ++second) run_second();
  EXPECT_EQ(count_lines("the cluster has no node n1"), 1);
  EXPECT_EQ(cluster_.writes, 0);
  EXPECT_LE(cluster_.reads, 7);
}

TEST_F(KubeReconciler, KubeletIsAskedEveryFiveSeconds) {
  run_seconds(600);
  EXPECT_GE(kubelet_.calls, 120);
  EXPECT_LE(kubelet_.calls, 122) << "and with each of the cluster's two reads";
}

TEST_F(KubeReconciler, BadGpuThatThePluginKeepsTaintsTheNode) {
  offer_by_plugin();
  run_second();
  set_verdict(0, Verdict::bad);
  run_seconds(15);
  EXPECT_FALSE(is_node_tainted()) << "the plugin still has time";
  run_second();
  EXPECT_TRUE(is_node_tainted());
  server_.allocatable->erase("GPU-a");
  run_seconds(5);
  EXPECT_FALSE(is_node_tainted()) << "the plugin hides it now";
}

TEST_F(KubeReconciler, BadGpuThatThePluginHidesInTimeTaintsNoNode) {
  offer_by_plugin();
  run_second();
  set_verdict(0, Verdict::bad);
  run_seconds(9);
  server_.allocatable->erase("GPU-a");
  const int writes = cluster_.writes;
  run_seconds(60);
  EXPECT_FALSE(is_node_tainted());
  EXPECT_EQ(cluster_.writes, writes);
}

TEST_F(KubeReconciler, KubeletIsAskedAgainBeforeAChange) {
  offer_by_plugin();
  run_second();
  set_verdict(0, Verdict::bad);
  run_seconds(5);
  pass(seconds(1));  // a late round, so that no question falls on the end of the plugin's time
  run_seconds(9);
  server_.allocatable->erase("GPU-a");  // since the last answer
  const int writes = cluster_.writes;
  run_seconds(10);
  EXPECT_EQ(cluster_.writes, writes);
}

// A plugin that a lost GPU has ended is named by nobody while it is away.
TEST_F(KubeReconciler, PluginThatTheKubeletNamedOnceIsRemembered) {
  offer_by_plugin();
  run_second();
  server_.allocatable.reset();
  run_seconds(10);
  start();
  set_verdict(0, Verdict::bad);
  report_.verdicts->gpus[0].rule = "gpu-lost";
  run_second();
  EXPECT_TRUE(is_node_tainted());
}

// What the kubelet said before is not good for longer because the API server is slow.
TEST_F(KubeReconciler, KubeletIsAskedAgainWithinASlowRound) {
  offer_by_plugin();
  run_second();
  set_verdict(0, Verdict::bad);
  run_second();
  cluster_.on_request = [&] {
    server_.allocatable->erase("GPU-a");
    pass(seconds(20));
  };
  pass(kReadInterval);
  run_second();
  EXPECT_FALSE(is_node_tainted());
}

TEST_F(KubeReconciler, StepsAreLogged) {
  settings_.taint_node = NodeTaintPolicy::any;
  start();
  set_verdict(0, Verdict::bad);
  run_second();
  EXPECT_THAT(log_text(), HasSubstr("wrote the condition gpuyard.io/GPUsHealthy: XidFatal: "));
  EXPECT_THAT(log_text(), HasSubstr(": gpu-0 of gpu.nvidia.com is tainted "
                                    "gpuyard.io/sick=xid-fatal:NoSchedule"));
  EXPECT_THAT(log_text(), HasSubstr("tainted the node"));
  set_verdict(0, Verdict::good);
  run_second();
  EXPECT_THAT(log_text(), HasSubstr("deleted gpuyard-n1-"));
  EXPECT_THAT(log_text(), HasSubstr("removed the node's taint gpuyard.io/gpu-sick"));
}

}  // namespace
}  // namespace gpuyard::cli::kube
