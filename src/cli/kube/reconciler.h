// Makes a cluster know what it should of this node's GPUs: reads, plans, sends the first step, and
// plans again. Queues nothing, so that a cluster that was away is told what is so now.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "base/clock.h"
#include "cli/kube/agent_environment.h"
#include "cli/kube/cluster.h"
#include "cli/kube/desired_state.h"
#include "cli/kube/kubelet.h"
#include "cli/kube/memory_file.h"
#include "cli/kube/plan.h"

namespace gpuyard::cli::kube {

// A cluster is read again this often, with jitter, to find what others have changed.
inline constexpr Duration kReadInterval = std::chrono::minutes(5);
// A kubelet is asked again after this time: a third of the time in which a plugin must hide a GPU.
inline constexpr Duration kKubeletInterval = std::chrono::seconds(5);
// A round ends after this time and a step, so that the daemon is read in between.
inline constexpr Duration kMaxRound = std::chrono::seconds(5);

// Thread: one. A round blocks for the requests that it sends.
class Reconciler {
 public:
  // The cluster, the kubelet and the file must outlive it.
  Reconciler(Settings, ClusterView&, KubeletView&, MemoryFile&, AgentEnvironment);

  // Takes the daemon's latest answer. `is_new`: it is not the one of the round before.
  void run_round(const DaemonReport&, bool is_new);

 private:
  std::vector<Step> make_plan(const Desired&);
  void ask_kubelet();
  bool read();
  bool send_all(const Desired&);
  void fail(const gpuyard::kube::Answer&);

  Settings settings_;
  ClusterView& cluster_;
  KubeletView& kubelet_;
  MemoryFile& file_;
  AgentEnvironment environment_;
  Memory& memory_;           // the file's
  TimePoint read_due_{};     // the cluster is read at once at the start, and after an error
  TimePoint next_round_{};   // no request before
  TimePoint kubelet_due_{};  // the kubelet is asked no sooner, or after a read
  std::optional<std::set<std::string>> allocatable_;  // its last answer, for Seen
  unsigned failures_ = 0;                             // in a row
  std::string error_;  // that was logged last; empty: the cluster is up to date
  bool missing_node_logged_ = false;
};

// "created gpuyard-n1-5f3c0a91: gpu-0 of gpu.nvidia.com is tainted gpuyard.io/sick=xid-fatal"
std::string step_text(const Step&);

}  // namespace gpuyard::cli::kube
