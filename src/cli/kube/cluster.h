// One node's objects at a real API server: reads what plan() compares, and sends its steps.
#pragma once

#include <set>
#include <string>

#include "base/clock.h"
#include "cli/kube/gpu_events.h"
#include "cli/kube/plan.h"
#include "io/kube/client.h"

namespace gpuyard::cli::kube {

// The reconciler's view of a cluster. Calls block until the answer or a timeout.
class ClusterView {
 public:
  virtual ~ClusterView() = default;
  // Reads everything anew. Unless the answer is ok, seen() stays what it was.
  virtual gpuyard::kube::Answer read() = 0;
  // Sends one step. If the answer is ok, seen() has its result; if it is a conflict, seen() is old.
  virtual gpuyard::kube::Answer send(const Step&) = 0;
  // Without what the kubelet says.
  virtual const Seen& seen() const = 0;
};

// The event reporter's view of a cluster. A call blocks until the answer or a timeout.
class EventView {
 public:
  virtual ~EventView() = default;
  // Outcome::already_exists: the server has an Event of this number.
  virtual gpuyard::kube::Answer write_event(const NodeEvent&) = 0;
};

// An Event that takes longer is sent again, so that it does not hold up what matters more.
inline constexpr Duration kEventTimeout = std::chrono::seconds(2);

class Cluster final : public ClusterView, public EventView {
 public:
  Cluster(gpuyard::kube::Client, std::string node, std::string condition_type);

  gpuyard::kube::Answer read() override;
  gpuyard::kube::Answer send(const Step&) override;
  const Seen& seen() const override { return seen_; }
  gpuyard::kube::Answer write_event(const NodeEvent&) override;

 private:
  gpuyard::kube::Answer read_api(Seen&);
  gpuyard::kube::Answer read_node(Seen&) const;
  gpuyard::kube::Answer read_slices(Seen&) const;
  gpuyard::kube::Answer read_rules(Seen&);
  gpuyard::kube::Answer take_node(gpuyard::kube::Answer, Seen&) const;

  gpuyard::kube::Answer write(const WriteCondition&);
  gpuyard::kube::Answer write(const CreateRule&);
  gpuyard::kube::Answer write(const DeleteRule&);
  gpuyard::kube::Answer write(const PatchTaints&);

  gpuyard::kube::Client client_;
  gpuyard::kube::Client event_client_;
  std::string node_;
  std::string condition_type_;
  std::string slice_version_;          // of resource.k8s.io; empty: no slices are served
  std::set<std::string> taken_names_;  // rules of these names exist, perhaps without our label
  Seen seen_;
};

// The paths of objects at the API server.
std::string node_path(std::string_view node, std::string_view subresource = "");
// An empty name: of all rules. REQUIRES: rules are served.
std::string rule_path(ResourceApi, std::string_view name = "");

// Finds the version that serves DeviceTaintRules, and the one that serves ResourceSlices ("":
// none).
struct ServedApi {
  ResourceApi rules = ResourceApi::none;
  std::string slices = {};
};
gpuyard::kube::Answer read_served_api(const gpuyard::kube::Client&, ServedApi&);

}  // namespace gpuyard::cli::kube
