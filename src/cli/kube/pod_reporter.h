// Reports the pods that have whole GPUs to the daemon of this node, so that each has a lease there.
// Queues nothing: pods that begin and end while the daemon is down are not reported.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cli/kube/kubelet.h"
#include "cli/kube/pod_plan.h"

namespace gpuyard::cli::kube {

// The kubelet lists its pods this often. A pod that is gone is found after twice this time.
inline constexpr Duration kPodInterval = kMinAbsence;
// The daemon's own list of pods is read again this often, since a lease may end there without a
// report, and an administrator may have restored its state.
inline constexpr Duration kLeasedPodsInterval = std::chrono::minutes(5);
// The report of a pod that the daemon refuses is repeated after this time, or when its GPUs change.
inline constexpr Duration kRefusedPodInterval = std::chrono::minutes(1);
// A round ends after this number of reports, or after this time and a report, so that the verdicts
// are read in between. The next list has the rest.
inline constexpr std::size_t kMaxReports = 16;
inline constexpr Duration kMaxReportTime = std::chrono::seconds(2);

// The reporter's view of the daemon. Calls block until the answer or a timeout.
class PodLeaseView {
 public:
  virtual ~PodLeaseView() = default;
  // Errc::not_found: the daemon does not have the route.
  virtual Result<LeasedPods> fetch_leased_pods() = 0;
  // Errc::not_found: the driver has none of its GPUs; or the pod has no lease.
  virtual Result<void> report(const PodReport&) = 0;
};

// Thread: one. A round blocks for the requests that it sends.
class PodReporter {
 public:
  // `own_pod`: "gpuyard/agent-x7k2p"; "": the agent runs in no pod. The views must outlive it.
  PodReporter(std::string own_pod, PodListView&, PodLeaseView&, std::function<TimePoint()> now);

  // Takes the devices of the node's ResourceSlices. `daemon_answers`: it has just done so.
  void run_round(const std::vector<SliceDevice>&, bool daemon_answers);

 private:
  // A report that the daemon refuses for its pod alone.
  struct Refusal {
    PodReport report;
    TimePoint retry_at{};
  };

  bool read_leased_pods();
  void send_all(const std::vector<PodReport>&);
  void repeat_report(const ListedPods&);
  bool is_waiting(const PodReport&) const;
  void refuse(const PodReport&, const Error&);
  void accept();
  void fail(const Error&);
  void log_trust(const ListedPods&);

  std::string own_pod_;
  PodListView& kubelet_;
  PodLeaseView& daemon_;
  std::function<TimePoint()> now_;
  Absences absences_;
  std::optional<LeasedPods> leased_;         // empty: to be read
  TimePoint leased_due_{};                   // when it is read again
  TimePoint due_{};                          // no round before
  std::map<std::string, Refusal> refusals_;  // by pod
  TimePoint repeat_due_{};                   // when a report is repeated if none is new
  unsigned failures_ = 0;                    // in a row
  std::string error_;  // that was logged last; empty: the daemon accepts reports
  bool untrusted_logged_ = false;
};

// "reported pod default/trainer-0 with GPU-..., GPU-..."
std::string report_text(const PodReport&);

}  // namespace gpuyard::cli::kube
