// Which GPUs a node's kubelet would still give to pods, and so whether a device plugin hides a bad
// one.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "io/kubelet/pod_resources.h"

namespace gpuyard::cli::kube {

// The reconciler's view of a kubelet. Calls block until the answer or a timeout.
class KubeletView {
 public:
  virtual ~KubeletView() = default;
  // UUIDs of the whole GPUs that it has from a device plugin and calls allocatable; empty: it does
  // not say.
  virtual std::optional<std::set<std::string>> fetch_allocatable() = 0;
};

class Kubelet final : public KubeletView {
 public:
  // An empty path: it is never asked.
  explicit Kubelet(std::string socket);

  std::optional<std::set<std::string>> fetch_allocatable() override;

 private:
  void log_change(bool is_absent, std::string error);

  std::string socket_;
  std::string error_;  // that was logged last; empty: it answers
};

// UUIDs of the whole GPUs. Empty if the kubelet lists none: one that has just started lists none
// until its plugins come back, and that is no sign that they hide a GPU.
std::optional<std::set<std::string>> whole_gpus(const kubelet::AllocatableDevices&);

}  // namespace gpuyard::cli::kube
