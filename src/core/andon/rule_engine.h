// Decides which rules trip, since when and until when: pending, firing, resolved. Pure state: the
// caller passes the time and the facts. Knows no disk, no sink and no action.
//
// The states of one rule for one GPU, and the function that makes each arrow. evaluate() calls
// them, once in a tick:
//
//    +------+ -- step(): the value reaches `at` -----------> +---------+
//    | none | <- step(): it no longer does, or is unknown -- | pending |
//    +------+                                                +---------+
//        ^                                                        |  fire(): after `hold`
//        |                                                        v
//        |                                                   +---------+
//        +-- resolve(): resolved, clear for `clear_hold` --- | firing  | <- restore()
//                                                            +---------+
//
// A firing alert may get worse, refresh(), and stays firing. A pending or firing one also ends when
// its rule is disabled or removed, replace(); when the rule covers other GPUs now,
// resolve_uncovered(); or when its GPU is gone, evict_absent() and remove_gpu().
//
// A firing alert may also be:
//   acknowledged   acknowledge(), until refresh() finds news of it
//   silenced       AlertService::silence(), until unsilence() or SilenceTable::expire()
// AlertService::notify_firing() leaves out both.
//
// A rule is inhibited for a GPU, inhibitor(), while another rule's alert fires for it: evaluate()
// takes the value as unknown, so that no alert fires and none is resolved. Of rules that inhibit
// each other the first one to fire is not inhibited.
//
// Thread: io.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "core/andon/alert.h"
#include "core/andon/facts.h"
#include "core/andon/rule.h"
#include "core/andon/sliding_windows.h"
#include "gpu/device/device.h"
#include "gpu/device/event.h"

namespace gpuyard::andon {

// A change of an alert. A firing alert whose value only moves is no change; one that reaches a
// worse level is, and so is news of it, such as another Xid.
struct AlertTransition {
  enum class Kind : std::uint8_t { fired, worse, resolved };
  Kind kind = Kind::fired;
  Alert alert;
};

struct PendingAlert {
  std::string rule;
  DeviceId gpu;
  std::uint32_t index = 0;
  double value = 0;
  Duration pending_duration{};
  Duration hold{};
};

class RuleEngine {
 public:
  // An alert outlives the disappearance of its GPU by this time.
  static constexpr Duration kAbsentRetention = std::chrono::hours(24);
  static constexpr Duration kEvictionInterval = std::chrono::seconds(60);
  // Between two ticks. Beyond it an event that is more than a note takes the place of a note.
  static constexpr std::size_t kMaxEvents = 4096;
  static constexpr std::size_t kMaxTextBytes = 256;  // bytes of the driver's text about an Xid

  explicit RuleEngine(Rules rules) { set_rules(std::move(rules)); }

  // Restores alerts that fired before the daemon started. They go on firing until their rules
  // clear.
  void restore(const std::vector<Alert>& firing, std::uint64_t last_number, TimePoint now);
  // Replaces the rules. Alerts of a rule that is gone or switched off are resolved.
  std::vector<AlertTransition> replace(Rules, WallTime wall);

  void on_event(const DeviceEvent&);
  // The second report of an event that on_event() got. It may have the driver's text, and by that
  // the event may be worse.
  void on_echo(const DeviceEvent&);
  // Returns the number of events dropped since the daemon started.
  std::uint64_t dropped_events() const { return dropped_events_; }
  std::vector<AlertTransition> tick(const Facts&, TimePoint now, WallTime wall);

  // Acknowledges a firing alert; leaves others as they are.
  void acknowledge(std::uint64_t number, Acknowledgement);
  // Records which sinks were notified of the alert, and of which severity, if of any.
  void record_notified(std::uint64_t number, std::optional<int> severity,
                       const std::vector<std::string>& sinks);

  const Rules& rules() const { return rules_; }
  std::vector<Alert> firing_alerts() const;  // by number, with current values
  const Alert* find(std::uint64_t number) const;
  std::vector<PendingAlert> pending_alerts(TimePoint now) const;
  // Returns the rule that inhibits this one on this GPU, or "".
  std::string inhibitor(const std::string& rule, const DeviceId& gpu) const;
  std::uint64_t last_number() const { return last_number_; }
  // Returns true if another GPU has the index that the alert's GPU had: the index does not name it
  // any more.
  bool is_index_reused(const Alert&) const;
  // Ends all alerts about a GPU that is no longer in the machine.
  std::vector<AlertTransition> remove_gpu(const DeviceId&, const std::string& why, WallTime wall);

 private:
  // The state of one rule for one GPU.
  struct RuleState {
    std::optional<TimePoint> reached_since;  // since when `at` is reached
    std::optional<TimePoint> clear_since;    // since when it is clear
    std::optional<TimePoint> absent_since;   // since when the GPU is not there
    std::uint32_t index = 0;
    double value = 0;
    std::optional<Alert> alert;                 // firing
    std::optional<TimePoint> not_clear_before;  // restored: its earlier growth is not known
    std::set<std::uint32_t> xids;               // of the alert
    bool renotify = false;                      // sinks are to be notified of the alert again
    bool text_changed = false;                  // the driver's text came after the alert
    bool index_reused = false;                  // is_index_reused(), as the message has it
    std::string unleased;                       // GpuFacts::unleased, as the message has it
    CounterWindow counter_window;
    EventWindow event_window;
  };
  using RuleStates = std::map<DeviceId, RuleState>;
  // The inputs of one evaluation of all rules, and the transitions that result.
  struct Tick {
    const Facts& facts;
    TimePoint now;
    WallTime wall;
    std::vector<AlertTransition> changes = {};
  };

  void set_rules(Rules);
  void enqueue_event(std::vector<DeviceEvent>& queue, const DeviceEvent&);
  void count_events();
  void count_echoes();
  void update_inhibited();
  void evaluate_all(const Rule&, Tick&);
  void evaluate(const Rule&, RuleStates&, const GpuFacts*, Tick&);
  static void step(const Rule&, RuleState&, std::optional<double> value, TimePoint now);
  static std::optional<double> value_of(const Rule&, RuleState&, const GpuFacts*, const Tick&);
  void fire(const Rule&, RuleState&, const GpuFacts*, Tick&);
  static void count(RuleState&, const DeviceEvent&);
  static void resolve_uncovered(RuleStates&, const DeviceId&, Tick&);
  void refresh(const Rule&, RuleState&, const GpuFacts*, std::vector<AlertTransition>&);
  void refresh_names(const Facts&);
  static void resolve(RuleState&, WallTime wall, std::string why, std::vector<AlertTransition>&);
  static void evict_absent(RuleStates&, const std::set<DeviceId>& present, Tick&);
  RuleState* state_of(std::uint64_t number);
  const Alert* alert_of(const std::string& rule, const DeviceId& gpu) const;

  Rules rules_;
  std::vector<std::size_t> inhibiting_rules_;              // of the rules that inhibit others
  std::set<DeviceId> inhibited_gpus_;                      // GPUs for which one of them fires
  std::map<std::uint32_t, DeviceId> indexes_;              // of the GPUs that the driver lists now
  std::map<std::string, RuleStates, std::less<>> states_;  // by rule
  std::vector<DeviceEvent> events_;                        // since the last tick
  std::vector<DeviceEvent> echoes_;                        // the same
  std::uint64_t dropped_events_ = 0;
  std::uint64_t last_number_ = 0;
  TimePoint evict_at_{};
};

}  // namespace gpuyard::andon
