// The tables of docs/andon.md; its prose is in reference_prose_for_tests.h.
#include "core/andon/reference_for_tests.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/record.h"
#include "core/andon/alert_severity.h"
#include "core/andon/reference_prose_for_tests.h"
#include "core/andon/rule_reader.h"
#include "gpu/device/catalog.h"
#include "gpu/device/xid.h"

namespace gpuyard::andon {
namespace {

// Escapes bars, because a bar ends a cell of a table.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

// Returns "10 s", "5 min" or "1 h"; "" for none.
std::string length(Duration duration) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration).count();
  if (seconds == 0) return "";
  if (seconds % 3600 == 0) return fmt::format("{} h", seconds / 3600);
  if (seconds % 60 == 0) return fmt::format("{} min", seconds / 60);
  return fmt::format("{} s", seconds);
}

std::string_view help_of(EventKind kind) {
  static const std::map<EventKind, std::string_view> help = {
      {EventKind::xid, "An error number of the driver; `xids` selects the numbers."},
      {EventKind::ecc_corrected, "A corrected memory error."},
      {EventKind::ecc_uncorrected, "An uncorrectable memory error."},
      {EventKind::poison, "Poisoned data was detected and contained."},
      {EventKind::fatal_poison, "Poisoned data was detected and could not be contained."},
      {EventKind::unavailable, "The GPU is lost, or requires a reset."},
      {EventKind::recovery_action, "The recommended recovery action for the GPU has changed."},
      {EventKind::events_lost, ""},
  };
  return help.at(kind);
}

std::string_view help_of(const Rule& rule) {
  if (const auto* const signal = std::get_if<Signal>(&rule.source)) return row_of(*signal).help;
  if (const auto* const event = std::get_if<EventCondition>(&rule.source)) {
    return help_of(event->kind);
  }
  return row_of(std::get<MetricSource>(rule.source).metric).help;
}

std::string looks_at(const Rule& rule) {
  const auto* const event = std::get_if<EventCondition>(&rule.source);
  if (event == nullptr || event->kind != EventKind::xid) {
    return fmt::format("`{}`: {}", rule.on, help_of(rule));
  }
  if (event->xids.empty()) return "`xid`: Xids that no other rule names.";
  std::vector<std::string_view> severities;
  for (const EventSeverity one : event->severities) severities.push_back(enum_name(one));
  const std::string only =
      severities.empty() ? "" : fmt::format(" that are {}", fmt::join(severities, " or "));
  return fmt::format("`xid`: {} {}{}.", event->xids.size() == 1 ? "Xid" : "Xids",
                     fmt::join(event->xids, ", "), only);
}

std::string trips_at(const Rule& rule) {
  std::string at = fmt::format("{} or {}", rule.at, rule.below ? "less" : "more");
  if (!rule.over) return at;
  const bool events = std::holds_alternative<EventCondition>(rule.source);
  return fmt::format("{}{} within {}", events ? "" : "growth of ", at, length(*rule.over));
}

std::string clears_at(const Rule& rule) {
  std::string level =
      fmt::format("{} {}", rule.below ? "above" : "below", rule.clear_at.value_or(rule.at));
  if (rule.clear_hold == Duration::zero()) return level;
  return fmt::format("{} for {}", level, length(rule.clear_hold));
}

std::string severity_of(const Rule& rule) {
  if (rule.curve != Curve::none) return fmt::format("`{}`", enum_name(rule.curve));
  return fmt::format("{} {}", rule.severity, enum_name(level_of(rule.severity)));
}

std::string does(const Rule& rule) {
  std::vector<std::string> what;
  if (rule.quarantine) what.emplace_back("quarantine");
  if (rule.cap_w) what.push_back(fmt::format("cap of {} W", *rule.cap_w));
  if (!rule.command.empty()) what.emplace_back("command");
  if (!rule.inhibits.empty()) {
    what.push_back(fmt::format("inhibits {}", fmt::join(rule.inhibits, ", ")));
  }
  if (!rule.sinks.empty()) what.push_back(fmt::format("only to {}", fmt::join(rule.sinks, ", ")));
  return fmt::format("{}", fmt::join(what, "; "));
}

std::string levels() {
  std::string text = "| level | severities |\n|---|---|\n";
  for (int low = 0; low <= 100;) {
    int high = low;
    while (high < 100 && level_of(high + 1) == level_of(low)) ++high;
    text += fmt::format("| {} | {} to {} |\n", enum_name(level_of(low)), low, high);
    low = high + 1;
  }
  return text;
}

// Returns a row with the curve's severity at some values, as the function itself computes them.
std::string curve_row(Curve curve, std::string_view words, std::string_view unit, double at,
                      const std::vector<double>& values) {
  Rule rule;
  rule.curve = curve;
  rule.at = at;
  std::string all;
  for (const double value : values) {
    const int severity = rule.severity_of(value);
    all += fmt::format("{}{} {}: {} ({})", all.empty() ? "" : ", ", value, unit, severity,
                       enum_name(level_of(severity)));
  }
  return fmt::format("| `{}` | {} | {} |\n", enum_name(curve), words, all);
}

std::string curves() {
  return "| curve | rises with | examples |\n|---|---|---|\n" +
         curve_row(Curve::thermal, "each degree above `at`, here 80", "°C", 80,
                   {80, 90, 110, 130}) +
         curve_row(Curve::memory, "the share in use", "%", 0, {90, 95, 99}) +
         curve_row(Curve::power, "the share of the limit", "%", 0, {95, 100}) +
         curve_row(Curve::idle, "the time, in steps beyond 1.5 times and twice `at`, here 300", "s",
                   300, {300, 450, 451, 600, 601});
}

std::string built_in() {
  std::string text =
      "| rule | watches | triggers at | hold | clears | severity | action "
      "|\n|---|---|---|---|---|---|---|\n";
  for (const Rule& rule : built_in_rules()) {
    text += fmt::format("| `{}` | {} | {} | {} | {} | {} | {} |\n", rule.name, cell(looks_at(rule)),
                        trips_at(rule), length(rule.hold), clears_at(rule), severity_of(rule),
                        does(rule));
  }
  return text;
}

std::string sayings() {
  std::string text = "| rule | message | advice |\n|---|---|---|\n";
  for (const Rule& rule : built_in_rules()) {
    text += fmt::format("| `{}` | {} | {} |\n", rule.name, cell(rule.message), cell(rule.advice));
  }
  return text;
}

// Returns the built-in rules that an Xid trips: of some the kernel's line says which.
std::string rules_of_xid(std::uint32_t xid) {
  std::string other;
  std::vector<std::string> found;
  std::set<EventSeverity> left = {EventSeverity::note, EventSeverity::warn, EventSeverity::stop};
  for (const Rule& rule : built_in_rules()) {
    const auto* const events = std::get_if<EventCondition>(&rule.source);
    if (events == nullptr || events->kind != EventKind::xid) continue;
    if (events->xids.empty()) other = rule.name;
    if (std::ranges::find(events->xids, xid) == events->xids.end()) continue;
    found.push_back(fmt::format("`{}`", rule.name));
    if (events->severities.empty()) left.clear();
    for (const EventSeverity one : events->severities) left.erase(one);
  }
  if (!left.empty()) found.push_back(fmt::format("`{}`", other));
  return fmt::format("{}", fmt::join(found, " or "));
}

std::string severity_of(const XidRow& row) {
  switch (row.line) {
    case XidLine::fatal:
      return fmt::format("{}, or by the line: Fatal is stop, Nonfatal is note",
                         enum_name(row.severity));
    case XidLine::recovery:
      return fmt::format("{}, or stop if the line requires a reset or reboot",
                         enum_name(row.severity));
    case XidLine::nothing:
      break;
  }
  return std::string(enum_name(row.severity));
}

std::string xids() {
  std::string text = "| Xid | severity | meaning | rule |\n|---|---|---|---|\n";
  for (const XidRow& row : xid_table()) {
    text += fmt::format("| {} | {} | {} | {} |\n", row.number, severity_of(row), cell(row.meaning),
                        rules_of_xid(row.number));
  }
  return text;
}

std::string sources() {
  std::string text = "| `on` | subject | meaning |\n|---|---|---|\n";
  for (const SignalRow& row : signals()) {
    text += fmt::format("| `{}` | {} | {} |\n", row.name, row.of_node ? "the machine" : "a GPU",
                        cell(row.help));
  }
  boost::mp11::mp_for_each<boost::describe::describe_enumerators<EventKind>>([&](auto kind) {
    if (kind.value == EventKind::events_lost) return;
    text += fmt::format("| `{}` | events of a GPU | {} |\n", kind.name, help_of(kind.value));
  });
  return text +
         "| any JSON key of [metrics.md](metrics.md) whose kind is gauge, counter or state | a GPU "
         "| The reading, in the unit that the key names. |\n";
}

std::string keys() {
  std::string text = "| key | value | meaning |\n|---|---|---|\n";
  for (const RuleKey& key : rule_keys()) {
    text += fmt::format("| `{}` | {} | {} |\n", key.name, cell(key.must_be), cell(key.help));
  }
  return text;
}

std::string_view help_of_placeholder(std::string_view name) {
  if (name == "gpu")
    return "Index of the GPU; its UUID and former index if another GPU has that index now.";
  if (name == "name") return "Name of the GPU.";
  if (name == "value") return "The watched value, to one decimal place.";
  if (name == "at") return "The rule's `at`.";
  if (name == "duration") return "The value in seconds, as a duration.";
  if (name == "limit_duration") return "`at` in seconds, as a duration.";
  if (name == "xid") return "Number of the last Xid.";
  if (name == "meaning") return "Meaning of that Xid.";
  if (name == "text") {
    return "Text of the kernel log line about it; empty without a line, or if it only repeats the "
           "meaning.";
  }
  if (name == "why") return "Why the GPU is unhealthy or does not respond.";
  if (name == "recovery")
    return "With on = \"recovery_needed\": the recovery that has this number.";
  if (name == "processes") {
    return "Processes on the GPU that have no lease; at most three are named.";
  }
  if (name == "leased") return "\"leased\", and to which pod if the lease is a pod's.";
  return "";
}

// Returns each placeholder as it is filled in, for one moment of one rule.
std::string placeholders() {
  Rule rule;
  rule.at = 300;
  MessageValues moment{"3",
                       "NVIDIA H100 80GB HBM3",
                       432.5,
                       149,
                       "its driver does not respond",
                       "NETIR_LINK_DOWN Fatal XC0 i0 Link 14",
                       "(PID 4711 (python) of UID 1000)",
                       "default/trainer-0"};
  std::string text = "| in a message | example | meaning |\n|---|---|---|\n";
  for (const std::string_view name : kPlaceholders) {
    rule.message = fmt::format("{{{}}}", name);
    if (name == "recovery") moment.value = 1;
    text += fmt::format("| `{}` | {} | {} |\n", rule.message, message_of(rule, moment),
                        help_of_placeholder(name));
  }
  return text;
}

}  // namespace

std::string reference() {
  const std::string limits = fmt::format(fmt::runtime(prose::kLimits), Rule{}.severity, kMaxRules,
                                         kMaxTextLength, kMaxListLength);
  return prose::kBeginning + levels() + prose::kCurves + curves() + prose::kRules + built_in() +
         prose::kMessages + sayings() + prose::kXids + xids() + prose::kSources + sources() +
         prose::kKeys + keys() + limits + placeholders() + prose::kExamples + prose::kActions +
         prose::kReloadAndRestart;
}

}  // namespace gpuyard::andon
