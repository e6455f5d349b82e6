// Properties that hold for all events in all orders: no pod ends that the last trusted list has,
// none on one list alone, and once it is quiet the daemon has a lease for each pod with GPUs.
//
// GPUYARD_CASES=100 runs 100 times as many cases; RC_PARAMS="seed=..." repeats a run.
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "base/property_for_tests.h"
#include "cli/kube/pod_views_for_tests.h"

namespace gpuyard::cli::kube {
namespace {

constexpr int kCasesOfPods = 300;
constexpr unsigned kPods = 4;
constexpr unsigned kGpusOfPods = 6;
constexpr const char* kOwnPod = "gpuyard/agent";

enum class PodEvent : std::uint8_t {
  begin_pod,
  end_pod,
  recreate_pod,  // under its name, with other GPUs
  lose_own_pod,
  lose_list,
  empty_list,
  restart_agent,
  toggle_daemon,
  toggle_error,
  toggle_lost_answers,
  toggle_old_daemon,
  lose_state,
  toggle_gpu,
  pass_time,
  count
};

struct PodStep {
  PodEvent what = PodEvent::count;
  unsigned which = 0;
};

void showValue(const PodStep& step, std::ostream& os) {
  os << static_cast<int>(step.what) << "/" << step.which;
}

// A node whose lists the agent trusts or not, and an independent judge of what it may report.
class PodNode {
 public:
  explicit PodNode(bool has_own_pod) : has_own_pod_(has_own_pod) {
    daemon_.on_report = [this](const PodReport& report) { judge(report); };
    start();
  }

  void happen(const PodStep& step) {
    const std::string pod = fmt::format("ml/pod-{}", step.which % kPods);
    switch (step.what) {
      case PodEvent::begin_pod:
        if (!pods_.contains(pod)) pods_[pod] = free_gpus(step.which);
        break;
      case PodEvent::end_pod:
        pods_.erase(pod);
        break;
      case PodEvent::recreate_pod:
        if (pods_.erase(pod) > 0) pods_[pod] = free_gpus(step.which / 2);
        break;
      case PodEvent::lose_own_pod:
        lists_own_pod_ = !lists_own_pod_;
        break;
      case PodEvent::lose_list:
        kubelet_.answers = !kubelet_.answers;
        break;
      case PodEvent::empty_list:
        is_empty_ = !is_empty_;
        break;
      case PodEvent::restart_agent:
        start();
        break;
      case PodEvent::toggle_daemon:
        is_up_ = !is_up_;
        break;
      case PodEvent::toggle_error:
        toggle(daemon_.fails_with, Errc::unavailable);
        break;
      case PodEvent::toggle_lost_answers:
        daemon_.loses_answer = !daemon_.loses_answer;
        break;
      case PodEvent::toggle_old_daemon:
        toggle(daemon_.fetch_fails_with, Errc::not_found);
        break;
      case PodEvent::lose_state:
        daemon_.leased.clear();
        break;
      case PodEvent::toggle_gpu: {
        const std::string gpu = fmt::format("GPU-{}", step.which % kGpusOfPods);
        if (daemon_.lost_gpus.erase(gpu) == 0) daemon_.lost_gpus.insert(gpu);
        break;
      }
      case PodEvent::pass_time:
      case PodEvent::count:
        break;
    }
    pass(std::chrono::seconds(1 + step.which % 8));
  }

  // Whatever happened: every wait of the reporter is over after this time.
  void settle() {
    lists_own_pod_ = true;
    is_empty_ = false;
    is_up_ = true;
    kubelet_.answers = true;
    daemon_.fails_with.reset();
    daemon_.fetch_fails_with.reset();
    daemon_.loses_answer = false;
    daemon_.lost_gpus.clear();
    pods_["ml/without-gpus"] = {};  // so that an agent on a host trusts the list
    pass(std::chrono::minutes(11));
    LeasedPods desired;
    for (const auto& [pod, uuids] : pods_) {
      if (!uuids.empty()) desired.emplace(pod, uuids);
    }
    RC_ASSERT(daemon_.leased == desired);
    const int calls = daemon_.calls;
    pass(std::chrono::minutes(1));
    RC_ASSERT(daemon_.calls <= calls + 1);  // a report that is repeated
  }

 private:
  void start() {
    reporter_ = std::make_unique<PodReporter>(has_own_pod_ ? kOwnPod : "", kubelet_, daemon_,
                                              [this] { return now_; });
    kubelet_.calls = 0;
    lists_.clear();
  }

  static void toggle(std::optional<Error>& error, Errc code) {
    error ? error.reset() : void(error = Error{code, "out of order"});
  }

  std::set<std::string> free_gpus(unsigned which) const {
    std::set<std::string> free;
    for (unsigned i = 0; i < kGpusOfPods; ++i) {
      const std::string gpu = fmt::format("GPU-{}", (i + which) % kGpusOfPods);
      const bool is_used =
          std::ranges::any_of(pods_, [&](const auto& pod) { return pod.second.contains(gpu); });
      if (!is_used && free.size() <= which % 3) free.insert(gpu);
    }
    return free;
  }

  void pass(Duration time) {
    for (const TimePoint end = now_ + time; now_ < end; now_ += std::chrono::seconds(1)) {
      kubelet_.pods.clear();
      if (!is_empty_) kubelet_.pods = pods_;
      if (!is_empty_ && lists_own_pod_) kubelet_.pods[kOwnPod] = {};
      const int calls = kubelet_.calls;
      next_list_ = List{now_, kubelet_.pods};
      reporter_->run_round({}, is_up_);
      // A report of this round has seen it as the last list: see judge().
      if (kubelet_.calls > calls) record_list();
    }
  }

  struct List {
    TimePoint at{};
    std::map<std::string, std::set<std::string>> pods = {};
  };

  bool is_last_list_trusted() const {
    if (!kubelet_.answers) return false;
    return has_own_pod_ ? next_list_.pods.contains(kOwnPod) : !next_list_.pods.empty();
  }
  void record_list() {
    if (!is_last_list_trusted()) return lists_.clear();
    lists_.push_back(next_list_);
  }

  void judge(const PodReport& report) const {
    RC_ASSERT(is_last_list_trusted());
    const auto listed = next_list_.pods.find(pod_of(report));
    const auto* const begun = std::get_if<BeginPod>(&report);
    if (begun != nullptr) {
      RC_ASSERT(listed != next_list_.pods.end());
      RC_ASSERT(listed->second == begun->uuids);
      return;
    }
    const bool is_listed = listed != next_list_.pods.end();
    RC_ASSERT(!is_listed || listed->second.empty());
    const Duration hold = std::chrono::seconds(is_listed ? 60 : 5);
    RC_ASSERT(std::ranges::any_of(lists_, [&](const List& list) {
      const auto before = list.pods.find(pod_of(report));
      const bool was_listed = before != list.pods.end();
      return was_listed == is_listed && (!was_listed || before->second.empty()) &&
             next_list_.at - list.at >= hold;
    }));
  }

  bool has_own_pod_;
  TimePoint now_{std::chrono::hours(1)};
  std::map<std::string, std::set<std::string>> pods_;  // that run
  bool lists_own_pod_ = true;
  bool is_empty_ = false;
  bool is_up_ = true;
  List next_list_;           // what the kubelet answers in this round
  std::vector<List> lists_;  // before, trusted and without another between them, of this agent
  FakePodList kubelet_;
  FakePodLeases daemon_;
  std::unique_ptr<PodReporter> reporter_;
};

rc::Gen<PodStep> any_pod_step() {
  return rc::gen::construct<PodStep>(
      rc::gen::map(rc::gen::inRange(0, static_cast<int>(PodEvent::count)),
                   [](int what) { return static_cast<PodEvent>(what); }),
      rc::gen::inRange(0U, 48U));
}

void hold_reports(bool has_own_pod) {
  check_property(fewer_if_sanitized(kCasesOfPods), [&] {
    PodNode node(has_own_pod);
    for (const PodStep& step : *rc::gen::container<std::vector<PodStep>>(any_pod_step())) {
      node.happen(step);
    }
    node.settle();
  });
}

TEST(KubePodReporterProperty, PodsOfAgentInPodKeepInvariants) {
  hold_reports(true);
}

TEST(KubePodReporterProperty, PodsOfAgentOnHostKeepInvariants) {
  hold_reports(false);
}

}  // namespace
}  // namespace gpuyard::cli::kube
