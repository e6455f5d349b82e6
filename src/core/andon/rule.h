// A rule: the value that it evaluates, when it becomes an alert and when it clears, its severity,
// its texts and its actions. Plain data; rule_reader.h makes it from TOML.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "core/andon/signals.h"
#include "gpu/device/event.h"
#include "gpu/device/metric.h"

namespace gpuyard::andon {

// A row of the metric catalog, by its JSON key. If the metric has several elements, the worst
// counts.
struct MetricSource {
  Metric metric{};
  double divisor = 1;  // from the row's native unit to the one that its JSON key names
};

// Events of a GPU; for Xids, only those of these numbers.
struct EventCondition {
  EventKind kind = EventKind::xid;
  std::vector<std::uint32_t> xids = {};        // empty: those that no other rule names
  std::vector<EventSeverity> severities = {};  // as severity_of() has them; empty: all
};

using RuleSource = std::variant<Signal, MetricSource, EventCondition>;

// The formula that makes a severity of a value; the formulas are in alert.h.
enum class Curve : std::uint8_t { none, thermal, memory, power, idle };
BOOST_DESCRIBE_ENUM(Curve, none, thermal, memory, power, idle)

struct Rule {
  std::string name;
  std::string on;  // the source, as it was written
  RuleSource source = Signal::temperature;
  bool enabled = true;
  bool below = false;              // trips at or below `at`, instead of at or above
  double at = 0;                   // trips when this is reached
  std::optional<double> clear_at;  // clears beyond this; empty: as soon as `at` is not reached
  Duration hold{};                 // how long it has to stay reached
  Duration clear_hold{};           // how long it has to stay clear
  // The window: for a metric, its growth in the window counts; for events, their number in it.
  std::optional<Duration> over;

  int severity = 50;
  Curve curve = Curve::none;  // instead of `severity`

  std::vector<std::string> gpus = {};      // by index, UUID or PCI address; empty: all
  std::vector<std::string> inhibits = {};  // rules inhibited for this GPU meanwhile; "*": all
  bool notify = true;
  std::vector<std::string> sinks = {};  // empty: all that want its level
  bool quarantine = false;
  std::optional<double> cap_w = {};       // limit on the GPU's power meanwhile, in watts
  std::vector<std::string> command = {};  // argument vector; run when it fires and when it ends
  std::string message;                    // {gpu}, {value}, {at}, ... see kPlaceholders
  std::string advice;                     // one plain sentence

  bool is_of_node() const;
  bool is_reached(double value) const { return below ? value <= at : value >= at; }
  // Whether the value is far enough on the good side to clear. Between `at` and `clear_at` nothing
  // changes.
  bool is_clear(double value) const;
  // Returns 0 to 100.
  int severity_of(double value) const;
};

// The words that may stand in braces in a message.
inline constexpr std::array<std::string_view, 13> kPlaceholders = {
    "gpu",     "name", "value", "at",       "duration",  "limit_duration", "xid",
    "meaning", "text", "why",   "recovery", "processes", "leased"};

// All rules, each name once.
using Rules = std::vector<Rule>;

struct Alert;

// True if the alert is about uncorrectable memory errors, or about a verdict on health, which they
// may have brought: once it is acknowledged, they are known.
bool is_about_memory_errors(const Rule&, const Alert&);
// True if the alert says that the GPU is gone: once it is acknowledged, a GPU that the driver does
// not list was taken out.
bool is_about_presence(const Rule&);

const Rule* find_rule(const Rules&, std::string_view name);

// The values that fill in a message at one moment.
struct MessageValues {
  std::string gpu;   // "3"
  std::string name;  // "NVIDIA H100 80GB HBM3"
  double value = 0;
  std::optional<std::uint32_t> xid;  // the last
  std::string why = {};              // the reason for the GPU's health or condition
  std::string driver_text = {};      // the driver's text about the last Xid, if any
  std::string processes = {};        // the unleased ones; or ""
  std::string pod = {};              // whose lease the GPU has, if it is a pod's
};
std::string message_of(const Rule&, const MessageValues&);
// Returns the recovery of a GPU that has this number in NVML as words: "a reset of the GPU"; "" for
// any other number.
std::string_view recovery_text(double action);
// Returns the first word in braces that is not in kPlaceholders.
std::optional<std::string> unknown_placeholder(std::string_view message);

}  // namespace gpuyard::andon
