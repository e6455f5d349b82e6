// Writes Events about this node's GPUs. They are best effort: an API server that refuses or loses
// them delays neither the condition nor a taint.
//
// An Event is recorded before it is sent, so that an agent that is killed before the answer does
// not cause a second one. If the server certainly has not taken it, it counts no
// longer, and what is so at the next attempt is written. If the answer is lost, the Event is sent
// again under the same name, which the server takes once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "cli/kube/agent_environment.h"
#include "cli/kube/cluster.h"
#include "cli/kube/desired_state.h"
#include "cli/kube/gpu_events.h"
#include "cli/kube/memory_file.h"
#include "io/kube/answer.h"

namespace gpuyard::cli::kube {

// A round ends after this time and an Event, so that the daemon is read in between.
inline constexpr Duration kMaxEventTime = std::chrono::seconds(2);
// A server that refuses an Event gets the next after this time.
inline constexpr Duration kRefusedEventInterval = std::chrono::minutes(5);

// Thread: one. A round blocks for the requests that it sends.
class EventReporter {
 public:
  // The view and the file must outlive it.
  EventReporter(EventView&, MemoryFile&, AgentEnvironment);

  // Takes the daemon's latest answer, which the memory's flaps know, and the uid of the cluster's
  // Node; empty: the cluster has none, or has not been read.
  void run_round(const DaemonReport&, const std::string& node_uid);

 private:
  // The Event that is being sent, or whose answer was lost.
  struct Pending {
    NodeEvent event;
    ReportedEvents before;  // as it was without the Event
    bool is_repeated = false;
  };

  void follow_node(const std::string& uid);
  void begin(const GpuEvent&, const Moment& now);
  bool send();
  void accept();
  void take_back();
  void fail(const gpuyard::kube::Answer&);
  void log_limit();
  ReportedEvents& reported() { return file_.memory().reported; }

  EventView& cluster_;
  MemoryFile& file_;
  AgentEnvironment environment_;
  EventLimit limit_;
  std::optional<Pending> pending_;
  std::uint64_t sequence_;                        // of the Events within a millisecond
  TimePoint next_round_{};                        // no request before
  unsigned failures_ = 0;                         // in a row
  std::optional<gpuyard::kube::Outcome> logged_;  // of the last failure; empty: Events are written
  bool limit_logged_ = false;
};

}  // namespace gpuyard::cli::kube
