// Reports to the daemon of this node which GPUs a device plugin hides, that is does not offer to
// pods while it offers others. The daemon knows which of them are healthy, and raises the alert.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cli/kube/kubelet.h"
#include "cli/kube/object_names.h"
#include "faces/protocol/verdict.h"

namespace gpuyard::cli::kube {

// The kubelet is asked this often. The alert waits for 5 min, so this need not be sooner.
inline constexpr Duration kPluginInterval = std::chrono::seconds(15);
// The report is repeated after this time, since the daemon drops one that is 3 min old.
inline constexpr Duration kPluginReportInterval = std::chrono::minutes(1);

// The reporter's view of the daemon. Calls block until the answer or a timeout.
class PluginReportView {
 public:
  virtual ~PluginReportView() = default;
  // Errc::not_found: the daemon does not have the route.
  virtual Result<void> report_hidden(const std::set<std::string>& uuids) = 0;
};

// Returns the UUIDs of the GPUs that a device plugin hides: the daemon's GPUs that are neither
// `offered` nor in a ResourceSlice, whose driver gives those out. Nothing if `offered` is empty:
// the kubelet does not say. Includes GPUs that are bad or in MIG mode: the daemon knows which, and
// no verdict here is as recent.
std::optional<std::set<std::string>> hidden_gpus(
    const protocol::GpuVerdicts&, const std::optional<std::set<std::string>>& offered,
    const std::vector<SliceDevice>&);

// Thread: one. A round blocks for the requests that it sends.
class PluginReporter {
 public:
  // The views must outlive it.
  PluginReporter(OfferedGpusView&, PluginReportView&, std::function<TimePoint()> now);

  // Takes the daemon's verdicts (null: it has given none, or does not answer), and the devices of
  // the node's ResourceSlices.
  void run_round(const protocol::GpuVerdicts*, const std::vector<SliceDevice>&);

  // The GPUs that the plugin hides by the kubelet's last answer. None while that is unknown, or
  // unknown to the daemon.
  const std::set<std::string>& hidden() const { return hidden_; }

 private:
  void send(std::set<std::string> hidden);
  void fail(Error);

  OfferedGpusView& kubelet_;
  PluginReportView& daemon_;
  std::function<TimePoint()> now_;
  TimePoint due_{};                                // no round before
  std::set<std::string> hidden_;                   // for hidden()
  std::optional<std::set<std::string>> reported_;  // what the daemon has; empty: unknown
  TimePoint repeat_at_{};                          // when the daemon gets the same again
  std::set<std::string> logged_;                   // the GPUs of the last line about them
  std::string error_;  // that was logged last; empty: the daemon accepts reports
};

}  // namespace gpuyard::cli::kube
