// Compares the pods that have GPUs on this node, as the kubelet lists them, with the pods that have
// leases at the daemon, and returns the reports that make the difference go. Pure: no I/O and no
// clock of its own.
//
// Nothing is queued: a report that fails is planned again on the next list.
//
//   kubelet, ResourceSlices --listed_pods()--> ListedPods --+
//   daemon ----------------------------------> LeasedPods --+--> plan_pods() --> reports --> daemon
//                                              Absences ----+
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "cli/kube/object_names.h"
#include "io/kubelet/pod_resources.h"

namespace gpuyard::cli::kube {

// A pod is gone if it is missing from two lists that are at least this far apart. Likewise a lease
// loses some of its GPUs.
inline constexpr Duration kMinAbsence = std::chrono::seconds(5);
// A listed pod whose GPUs are all missing has lost them after this time: a kubelet that has just
// started lists pods before their devices.
inline constexpr Duration kMinAbsenceOfGpus = std::chrono::minutes(1);

// A pod and its whole GPUs. A share of a GPU is not in it: others use that GPU as well.
struct ListedPod {
  std::set<std::string> uuids = {};
  std::string note = {};  // the names of the containers that have them
  // False: a ResourceSlice that names one of its claimed devices has not been read.
  bool is_complete = true;

  friend bool operator==(const ListedPod&, const ListedPod&) = default;
};

// All pods of a node, also those without a GPU, by "default/trainer-0".
using ListedPods = std::map<std::string, ListedPod, std::less<>>;
// The UUIDs of the pods that hold a lease, by the same.
using LeasedPods = std::map<std::string, std::set<std::string>, std::less<>>;
// What a list lacks of a leased pod.
enum class Lack : std::uint8_t { pod, all_gpus, some_gpus };
struct Absence {
  Lack lack{};
  TimePoint since{};  // when the first trusted list that lacks it was read
};
// By the same.
using Absences = std::map<std::string, Absence, std::less<>>;

ListedPods listed_pods(const std::vector<kubelet::Pod>&, const std::vector<SliceDevice>&);

// Returns whether a pod that the list lacks may be gone. A kubelet that has just started lists no
// pod, or not yet all of them. `own_pod` is the agent's own, which runs; "": the agent runs in no
// pod.
bool is_trusted(const ListedPods&, std::string_view own_pod);

// PUT of the pod: it has these GPUs.
struct BeginPod {
  std::string pod;
  std::set<std::string> uuids;
  std::string note;

  friend bool operator==(const BeginPod&, const BeginPod&) = default;
};

// DELETE of the pod: it is gone.
struct EndPod {
  std::string pod;

  friend bool operator==(const EndPod&, const EndPod&) = default;
};

using PodReport = std::variant<BeginPod, EndPod>;

const std::string& pod_of(const PodReport&);

// Returns the reports for one list, ends first. A list that is not trusted, or null (the kubelet
// did not answer), has none. REQUIRES: each list is given once, `now` is when it was read.
std::vector<PodReport> plan_pods(const ListedPods*, const LeasedPods&, std::string_view own_pod,
                                 Absences&, TimePoint now);

// Changes `leased` as the daemon does for a report that it accepts: a GPU has one lease, so a pod
// that had a GPU of the report has no lease any longer.
void apply_report(LeasedPods& leased, const PodReport&);

}  // namespace gpuyard::cli::kube
