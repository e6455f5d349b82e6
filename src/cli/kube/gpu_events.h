// Which Events the agent writes about its Node, so that `kubectl describe node` has the history of
// its GPUs. Pure: no I/O and no clock of its own.
//
// Nothing is queued: what is so now is compared with what was reported last, and the difference is
// written. A GPU that was bad and is good again before anything was written gets no Event.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cli/kube/desired_state.h"

namespace gpuyard::cli::kube {

// The limits of the API events.k8s.io, in bytes.
inline constexpr std::size_t kMaxEventMessageBytes = 1024;
inline constexpr std::size_t kMaxEventReasonBytes = 128;

// The most Events that one agent writes within the time.
inline constexpr std::size_t kMaxEvents = 20;
inline constexpr Duration kEventWindow = std::chrono::hours(1);

enum class EventKind : std::uint8_t {
  driver_down,  // the alert driver-down began
  driver_up,    // it ended, and the driver answers
  bad,          // an alert quarantines a GPU, or another alert takes over
  good,         // no alert quarantines it any longer
  removed,      // the daemon no longer lists a GPU that was bad or cordoned
  cordoned,
  uncordoned,
};

struct GpuEvent {
  EventKind kind = EventKind::bad;
  std::string uuid = {};     // of the GPU; empty: the driver
  std::string rule = {};     // of a bad GPU
  std::string reason = {};   // "XidFatal", at most kMaxEventReasonBytes
  std::string message = {};  // at most kMaxEventMessageBytes

  bool is_warning() const { return kind == EventKind::bad || kind == EventKind::driver_down; }
};

// An Event to write.
struct NodeEvent {
  std::uint64_t number = 0;  // of its name; no other Event of the node has it
  std::string node_uid = {};
  GpuEvent event = {};
  WallTime at = {};
};

struct ReportedGpu {
  std::optional<std::string> rule = {};  // of its last Warning; empty: the GPU was reported good
  bool cordoned = false;

  friend bool operator==(const ReportedGpu&, const ReportedGpu&) = default;
};

// The state that the last Events report. Empty: no GPU is bad or cordoned.
struct ReportedEvents {
  std::string node_uid = {};  // of the Node that they are about
  bool driver_down = false;
  std::map<std::string, ReportedGpu> gpus = {};  // those that are bad or cordoned, by UUID

  friend bool operator==(const ReportedEvents&, const ReportedEvents&) = default;
};

// Returns the difference, warnings first. What is unknown begins and ends nothing.
std::vector<GpuEvent> events_of(const Desired&, const ReportedEvents&);

// Counts the Event as reported.
void record_event(ReportedEvents&, const GpuEvent&);

// Counts the Events of the last hour.
class EventLimit {
 public:
  bool has_room(TimePoint now);
  bool is_unused(TimePoint now);
  void add(TimePoint now);

 private:
  void forget_old(TimePoint now);

  std::deque<TimePoint> written_at_;  // at most kMaxEvents
};

}  // namespace gpuyard::cli::kube
