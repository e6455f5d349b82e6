// Decides which rules trip, since when and until when: pending, firing, resolved. Pure state: the
// caller tells it the time and the facts. Knows no disk, no sink and no action.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "andon/alert.h"
#include "andon/facts.h"
#include "andon/rule.h"
#include "base/clock.h"
#include "device/event.h"

namespace gpuyard::andon {

// Sliding windows: how often something happened, and how much a counter grew.

// The times of events.
class Occurrences {
 public:
  static constexpr std::size_t kMost = 1024;  // beyond it the oldest is forgotten

  void add(TimePoint at, std::optional<std::uint32_t> xid);
  // Returns how many are younger than `over`.
  double count(Duration over, TimePoint now);
  const std::optional<std::uint32_t>& last_xid() const { return last_xid_; }

 private:
  std::deque<TimePoint> times_;
  std::optional<std::uint32_t> last_xid_;
};

// The growth of a counter that is read again and again.
class Growth {
 public:
  // The number of parts of a window. It bounds what is remembered; the answer is off by one part.
  static constexpr int kParts = 60;

  // Returns the growth in the last `over`, or nothing before there are two values. A counter that
  // went back begins anew, because its GPU was reset.
  std::optional<double> note(double counter, Duration over, TimePoint now);

 private:
  struct Point {
    TimePoint at;
    double counter = 0;
  };
  std::deque<Point> points_;
};

// A change that a tick made. A firing alert whose value only moves is no change; one that reaches a
// worse level is.
struct Change {
  enum class Kind : std::uint8_t { fired, worse, resolved };
  Kind kind = Kind::fired;
  Alert alert;
};

struct Pending {
  std::string rule;
  DeviceId gpu;
  std::uint32_t index = 0;
  double value = 0;
  Duration for_so_long{};
  Duration hold{};
};

class Engine {
 public:
  // How long an alert outlives the disappearance of its GPU.
  static constexpr Duration kForgetAfter = std::chrono::hours(24);
  static constexpr Duration kForgetEvery = std::chrono::seconds(60);
  static constexpr std::size_t kMostEvents = 4096;  // between two ticks

  explicit Engine(Rules rules) { take(std::move(rules)); }

  // Takes over what fired before the daemon started. It goes on firing until its rule clears it.
  void restore(const std::vector<Alert>& firing, std::uint64_t last_number, TimePoint now);
  // Replaces the rules. Alerts of a rule that is gone or switched off are over.
  std::vector<Change> replace(Rules, WallTime wall);

  void on_event(const DeviceEvent&);
  std::vector<Change> tick(const Facts&, TimePoint now, WallTime wall);

  // Acknowledges a firing alert; leaves others as they are.
  void acknowledge(std::uint64_t number, Acknowledgement);
  // Records which sinks hear of the alert, and the severity that people were told, if any.
  void note_told(std::uint64_t number, std::optional<int> severity,
                 const std::vector<std::string>& sinks);

  const Rules& rules() const { return rules_; }
  std::vector<Alert> firing() const;  // by number, with current values
  const Alert* find(std::uint64_t number) const;
  std::vector<Pending> pending(TimePoint now) const;
  // Returns the rule that keeps this one quiet on this GPU, or "".
  std::string inhibitor(const std::string& rule, const DeviceId& gpu) const;
  std::uint64_t last_number() const { return last_number_; }

 private:
  // The state of one rule for one GPU.
  struct Track {
    std::optional<TimePoint> reached;  // since when `at` is reached
    std::optional<TimePoint> clear;    // since when it is clear
    std::optional<TimePoint> unseen;   // since when the GPU is not there
    std::uint32_t index = 0;
    double value = 0;
    std::optional<Alert> alert;                 // firing
    std::optional<TimePoint> not_clear_before;  // restored: its earlier growth is not known
    std::set<std::uint32_t> xids;               // of the alert
    bool renewed = false;                       // the alert is to be told again
    Growth growth;
    Occurrences occurrences;
  };
  using Tracks = std::map<DeviceId, Track>;

  void take(Rules);
  void count_events();
  void note_quiet_gpus();
  void look_at_all(const Rule&, const Facts&, TimePoint now, WallTime wall, std::vector<Change>&);
  void look(const Rule&, Tracks&, const GpuFacts*, const Facts&, TimePoint now, WallTime wall,
            std::vector<Change>&);
  static void step(const Rule&, Track&, std::optional<double> value, TimePoint now);
  static std::optional<double> value_of(const Rule&, Track&, const GpuFacts*, const Facts&,
                                        TimePoint now);
  void fire(const Rule&, Track&, const GpuFacts*, bool simulated, WallTime wall,
            std::vector<Change>&);
  static void count(Track&, const DeviceEvent&);
  void end_elsewhere(Tracks&, const DeviceId&, WallTime wall, std::vector<Change>&);
  static void refresh(const Rule&, Track&, const GpuFacts*, std::vector<Change>&);
  static void resolve(Track&, WallTime wall, std::string why, std::vector<Change>&);
  static void forget(Tracks&, const std::set<DeviceId>& there, TimePoint now, WallTime wall,
                     std::vector<Change>&);
  Track* track_of(std::uint64_t number);
  const Alert* alert_of(const std::string& rule, const DeviceId& gpu) const;

  Rules rules_;
  std::vector<std::size_t> inhibiting_;                // places of the rules that keep others quiet
  std::set<DeviceId> quiet_gpus_;                      // GPUs for which one of them fires
  std::map<std::string, Tracks, std::less<>> tracks_;  // by rule
  std::vector<DeviceEvent> events_;                    // since the last tick
  std::uint64_t last_number_ = 0;
  TimePoint forget_at_{};
};

}  // namespace gpuyard::andon
