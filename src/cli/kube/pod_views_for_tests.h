// A kubelet and a daemon in memory, for tests of the pod reporter.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/kube/pod_reporter.h"

namespace gpuyard::cli::kube {

class FakePodList final : public PodListView {
 public:
  std::optional<std::vector<kubelet::Pod>> fetch_pods() override {
    ++calls;
    if (!answers) return std::nullopt;
    std::vector<kubelet::Pod> listed;
    for (const auto& [pod, uuids] : pods) {
      const std::size_t slash = pod.find('/');
      kubelet::Pod& one = listed.emplace_back();
      one.namespace_name = pod.substr(0, slash);
      one.name = pod.substr(slash + 1);
      for (const std::string& uuid : uuids) {
        one.devices.emplace_back().id = uuid;
        one.devices.back().container = "main";
      }
    }
    return listed;
  }

  std::map<std::string, std::set<std::string>> pods;  // UUIDs, by "default/trainer-0"
  bool answers = true;
  int calls = 0;
};

// Has a lease for each pod, as the daemon, and refuses what the daemon refuses.
class FakePodLeases final : public PodLeaseView {
 public:
  Result<LeasedPods> fetch_leased_pods() override {
    ++fetches;
    if (fetch_fails_with) return *fetch_fails_with;
    return leased;
  }
  Result<void> report(const PodReport& report) override {
    ++calls;
    if (on_report) on_report(report);
    if (fails_with) return *fails_with;
    const auto* const begun = std::get_if<BeginPod>(&report);
    if (begun != nullptr && std::ranges::includes(lost_gpus, begun->uuids)) {
      return Error{Errc::not_found, "the driver has no such GPU"};
    }
    if (begun == nullptr && !leased.contains(pod_of(report))) {
      return Error{Errc::not_found, "the pod has no lease"};
    }
    apply_report(leased, report);
    accepted.push_back(report);
    if (!loses_answer) return {};
    return Error{Errc::timed_out, "no answer in time"};
  }

  LeasedPods leased;
  std::set<std::string> lost_gpus;  // the driver does not have them
  std::optional<Error> fetch_fails_with;
  std::optional<Error> fails_with;
  bool loses_answer = false;  // of a report that it has accepted
  std::function<void(const PodReport&)> on_report;
  std::vector<PodReport> accepted;
  int fetches = 0;
  int calls = 0;
};

}  // namespace gpuyard::cli::kube
