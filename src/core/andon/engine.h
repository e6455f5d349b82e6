// Which rules trip, since when and until when: pending, firing, resolved. Pure state that is told
// the time and the facts; knows no disk, no sink and no action.
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

// What happened within a time that moves along: how often, and how much a counter grew.

// Times at which something happened.
class Occurrences {
 public:
  static constexpr std::size_t kMost = 1024;  // beyond it the oldest is forgotten

  void add(TimePoint at, std::optional<std::uint32_t> xid);
  // Those younger than `over`.
  double count(Duration over, TimePoint now);
  const std::optional<std::uint32_t>& last_xid() const { return last_xid_; }

 private:
  std::deque<TimePoint> times_;
  std::optional<std::uint32_t> last_xid_;
};

// A counter, looked at again and again.
class Growth {
 public:
  // So finely is the time divided: what is remembered is bounded, and the answer off by one part.
  static constexpr int kParts = 60;

  // How much it grew in the last `over`. Nothing before there are two values. One that went back
  // begins anew: its GPU was reset.
  std::optional<double> note(double counter, Duration over, TimePoint now);

 private:
  struct Point {
    TimePoint at;
    double counter = 0;
  };
  std::deque<Point> points_;
};

// What a tick changed. A firing alert whose value only moves is no change; one that reaches a worse
// level is.
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
  // An alert of a GPU that is not there any more ends after so long.
  static constexpr Duration kForgetAfter = std::chrono::hours(24);
  static constexpr Duration kForgetEvery = std::chrono::seconds(60);
  static constexpr std::size_t kMostEvents = 4096;  // between two ticks

  explicit Engine(Rules rules) { take(std::move(rules)); }

  // What fired before this life. It goes on firing until its rule clears it.
  void restore(const std::vector<Alert>& firing, std::uint64_t last_number, TimePoint now);
  // Other rules from now on. What a rule that is gone or switched off had is over.
  std::vector<Change> replace(Rules, WallTime wall);

  void on_event(const DeviceEvent&);
  std::vector<Change> tick(const Facts&, TimePoint now, WallTime wall);

  // Of a firing one; others are left as they are.
  void acknowledge(std::uint64_t number, Acknowledgement);
  // These sinks hear of it; `severity`: as bad as they were told it is, if that is for people.
  void note_told(std::uint64_t number, std::optional<int> severity,
                 const std::vector<std::string>& sinks);

  const Rules& rules() const { return rules_; }
  std::vector<Alert> firing() const;  // by number, as they are now
  const Alert* find(std::uint64_t number) const;
  std::vector<Pending> pending(TimePoint now) const;
  // The rule that keeps this one quiet on this GPU; "": none.
  std::string inhibitor(const std::string& rule, const DeviceId& gpu) const;
  std::uint64_t last_number() const { return last_number_; }

 private:
  // Of one rule and one GPU.
  struct Track {
    std::optional<TimePoint> reached;  // since
    std::optional<TimePoint> clear;    // since
    std::optional<TimePoint> unseen;   // the GPU is not there, since
    std::uint32_t index = 0;
    double value = 0;
    std::optional<Alert> alert;                 // firing
    std::optional<TimePoint> not_clear_before;  // restored: what grew before is not known
    std::set<std::uint32_t> xids;               // of the alert
    bool renewed = false;                       // the alert is to be told anew
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
  std::set<DeviceId> quiet_gpus_;                      // for which one of them fires
  std::map<std::string, Tracks, std::less<>> tracks_;  // by rule
  std::vector<DeviceEvent> events_;                    // since the last tick
  std::uint64_t last_number_ = 0;
  TimePoint forget_at_{};
};

}  // namespace gpuyard::andon
