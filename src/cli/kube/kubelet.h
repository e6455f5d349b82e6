// What a node's kubelet says: which GPUs it would still give to pods, and so whether a device
// plugin hides a bad one; and which pods have GPUs.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
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

// The plugin reporter's view of a kubelet. Calls block until the answer or a timeout.
class OfferedGpusView {
 public:
  virtual ~OfferedGpusView() = default;
  // UUIDs of the GPUs that a device plugin offers to pods, whole or as shares; empty: it does not
  // say.
  virtual std::optional<std::set<std::string>> fetch_offered() = 0;
};

// The pod reporter's view of a kubelet. Calls block until the answer or a timeout.
class PodListView {
 public:
  virtual ~PodListView() = default;
  // All pods of the node; empty: it does not answer.
  virtual std::optional<std::vector<kubelet::Pod>> fetch_pods() = 0;
};

class Kubelet final : public KubeletView, public OfferedGpusView, public PodListView {
 public:
  // An empty path: it is never asked.
  explicit Kubelet(std::string socket);

  std::optional<std::set<std::string>> fetch_allocatable() override;
  std::optional<std::set<std::string>> fetch_offered() override;
  std::optional<std::vector<kubelet::Pod>> fetch_pods() override;

 private:
  // One of its two answers. Each has its own errors: it may lack one of the calls.
  struct Question {
    std::string_view effect;  // of an error
    std::string error = {};   // that was logged last; empty: it answers
  };

  std::optional<kubelet::AllocatableDevices> fetch_devices();
  template <class Value>
  std::optional<Value> take(Result<Value>, Question&);

  std::string socket_;
  Question allocatable_{"a plugin is trusted to hide a bad GPU and to offer a good one"};
  Question pods_{"no pod is reported to the daemon"};
};

// UUIDs of the whole GPUs. Empty if the kubelet lists none: one that has just started lists none
// until its plugins come back, and that is no sign that they hide a GPU.
std::optional<std::set<std::string>> whole_gpus(const kubelet::AllocatableDevices&);

// UUIDs of the GPUs that are offered, whole or as time slices and the like. Empty if no GPU is
// offered whole: an instance does not name its GPU, and a plugin that shares every GPU may hide one
// in ways that were not tried.
std::optional<std::set<std::string>> offered_gpus(const kubelet::AllocatableDevices&);

}  // namespace gpuyard::cli::kube
