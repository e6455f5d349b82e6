// The tables of docs/andon.md; its prose is in reference_prose_for_tests.h.
#include "andon/reference_for_tests.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "andon/alert.h"
#include "andon/reference_prose_for_tests.h"
#include "andon/rule_reader.h"
#include "base/record.h"
#include "device/catalog.h"
#include "device/xid.h"

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
      {EventKind::xid, "The driver's own number for what went wrong; `xids` says which."},
      {EventKind::ecc_corrected, "A memory error of one bit, which was corrected."},
      {EventKind::ecc_uncorrected, "A memory error of two bits, which could not be."},
      {EventKind::poison, "Poisoned data was met, and stopped before it did harm."},
      {EventKind::fatal_poison, "Poisoned data was met, and did harm."},
      {EventKind::unavailable, "The GPU is gone, or wants a reset before anything else."},
      {EventKind::recovery_action, "What would help the GPU has changed."},
      {EventKind::events_lost, ""},
  };
  return help.at(kind);
}

std::string_view help_of(const Rule& rule) {
  if (const auto* const signal = std::get_if<Signal>(&rule.source)) return row_of(*signal).help;
  if (const auto* const event = std::get_if<EventSource>(&rule.source)) {
    return help_of(event->kind);
  }
  return row_of(std::get<MetricSource>(rule.source).metric).help;
}

std::string looks_at(const Rule& rule) {
  const auto* const event = std::get_if<EventSource>(&rule.source);
  if (event == nullptr || event->kind != EventKind::xid) {
    return fmt::format("`{}`: {}", rule.on, help_of(rule));
  }
  if (event->xids.empty()) return "`xid`: Xids that no other rule names.";
  std::vector<std::string_view> severities;
  for (const Severity one : event->severities) severities.push_back(enum_name(one));
  const std::string only =
      severities.empty() ? "" : fmt::format(" that are {}", fmt::join(severities, " or "));
  return fmt::format("`xid`: {} {}{}.", event->xids.size() == 1 ? "Xid" : "Xids",
                     fmt::join(event->xids, ", "), only);
}

std::string trips_at(const Rule& rule) {
  std::string at = fmt::format("{} or {}", rule.at, rule.below ? "less" : "more");
  if (!rule.over) return at;
  const bool events = std::holds_alternative<EventSource>(rule.source);
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
  return "| curve | rises with | for example |\n|---|---|---|\n" +
         curve_row(Curve::thermal, "each degree above `at`, here 80", "°C", 80,
                   {80, 90, 110, 130}) +
         curve_row(Curve::memory, "the share in use", "%", 0, {90, 95, 99}) +
         curve_row(Curve::power, "the share of the limit", "%", 0, {95, 100}) +
         curve_row(Curve::idle, "the time, in steps beyond 1.5 times and twice `at`, here 300", "s",
                   300, {300, 450, 451, 600, 601});
}

std::string built_in() {
  std::string text =
      "| rule | looks at | trips at | hold | clears when | severity | does |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const Rule& rule : built_in_rules()) {
    text += fmt::format("| `{}` | {} | {} | {} | {} | {} | {} |\n", rule.name, cell(looks_at(rule)),
                        trips_at(rule), length(rule.hold), clears_at(rule), severity_of(rule),
                        does(rule));
  }
  return text;
}

std::string sayings() {
  std::string text = "| rule | says | advises |\n|---|---|---|\n";
  for (const Rule& rule : built_in_rules()) {
    text += fmt::format("| `{}` | {} | {} |\n", rule.name, cell(rule.message), cell(rule.advice));
  }
  return text;
}

// Returns the built-in rules that an Xid trips: of some the kernel's line says which.
std::string rules_of_xid(std::uint32_t xid) {
  std::string other;
  std::vector<std::string> found;
  std::set<Severity> left = {Severity::note, Severity::warn, Severity::stop};
  for (const Rule& rule : built_in_rules()) {
    const auto* const events = std::get_if<EventSource>(&rule.source);
    if (events == nullptr || events->kind != EventKind::xid) continue;
    if (events->xids.empty()) other = rule.name;
    if (std::ranges::find(events->xids, xid) == events->xids.end()) continue;
    found.push_back(fmt::format("`{}`", rule.name));
    if (events->severities.empty()) left.clear();
    for (const Severity one : events->severities) left.erase(one);
  }
  if (!left.empty()) found.push_back(fmt::format("`{}`", other));
  return fmt::format("{}", fmt::join(found, " or "));
}

std::string severity_of(const XidRow& row) {
  switch (row.line) {
    case XidLine::fatal:
      return fmt::format("{}, or as the line says: Fatal is stop, Nonfatal note",
                         enum_name(row.severity));
    case XidLine::recovery:
      return fmt::format("{}, or stop if the line says that a reset or reboot is required",
                         enum_name(row.severity));
    case XidLine::nothing:
      break;
  }
  return std::string(enum_name(row.severity));
}

std::string xids() {
  std::string text = "| Xid | | means | rule |\n|---|---|---|---|\n";
  for (const XidRow& row : xid_table()) {
    text += fmt::format("| {} | {} | {} | {} |\n", row.number, severity_of(row), cell(row.meaning),
                        rules_of_xid(row.number));
  }
  return text;
}

std::string sources() {
  std::string text = "| `on` | of | is |\n|---|---|---|\n";
  for (const SignalRow& row : signals()) {
    text += fmt::format("| `{}` | {} | {} |\n", row.name, row.of_node ? "the machine" : "a GPU",
                        cell(row.help));
  }
  boost::mp11::mp_for_each<boost::describe::describe_enumerators<EventKind>>([&](auto kind) {
    if (kind.value == EventKind::events_lost) return;
    text += fmt::format("| `{}` | events of a GPU | {} |\n", kind.name, help_of(kind.value));
  });
  return text +
         "| any JSON key of [metrics.md](metrics.md) whose kind is gauge, counter or state "
         "| a GPU | The reading, in the unit that the key names. |\n";
}

std::string keys() {
  std::string text = "| key | is | |\n|---|---|---|\n";
  for (const RuleKey& key : rule_keys()) {
    text += fmt::format("| `{}` | {} | {} |\n", key.name, cell(key.must_be), cell(key.help));
  }
  return text;
}

std::string_view help_of_placeholder(std::string_view name) {
  if (name == "gpu")
    return "The GPU's index; its UUID and the index that it had, where another GPU has that now.";
  if (name == "name") return "Its name.";
  if (name == "value") return "What is looked at, to one place after the point.";
  if (name == "at") return "The rule's `at`.";
  if (name == "duration") return "The value, in seconds, as a length of time.";
  if (name == "limit_duration") return "`at`, in seconds, as a length of time.";
  if (name == "xid") return "The number of the last Xid.";
  if (name == "meaning") return "What that Xid means.";
  if (name == "text") {
    return "The words of the kernel's line about it; nothing without a line, or if it says no more "
           "than the meaning.";
  }
  if (name == "why") return "Why the GPU is not well, or does not answer.";
  return "";
}

// Returns each placeholder as it is filled in, for one moment of one rule.
std::string placeholders() {
  Rule rule;
  rule.at = 300;
  const Telling moment{"3", "NVIDIA H100 80GB HBM3",      432.5,
                       149, "its driver does not answer", "NETIR_LINK_DOWN Fatal XC0 i0 Link 14"};
  std::string text = "| in a message | for example | |\n|---|---|---|\n";
  for (const std::string_view name : kPlaceholders) {
    rule.message = fmt::format("{{{}}}", name);
    text += fmt::format("| `{}` | {} | {} |\n", rule.message, message_of(rule, moment),
                        help_of_placeholder(name));
  }
  return text;
}

}  // namespace

std::string reference() {
  const std::string limits = fmt::format(fmt::runtime(prose::kLimits), Rule{}.severity, kMostRules,
                                         kMostText, kMostListed);
  return prose::kBeginning + levels() + prose::kCurves + curves() + prose::kRules + built_in() +
         prose::kSayings + sayings() + prose::kXids + xids() + prose::kSources + sources() +
         prose::kKeys + keys() + limits + placeholders() + prose::kExamples + prose::kActions +
         prose::kLater;
}

}  // namespace gpuyard::andon
