#include "cli/alerts/alerts_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/local_time.h"
#include "cli/lease/lease_text.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/reading_text.h"

namespace gpuyard::cli {
namespace {

using protocol::Alert;

// The order in which columns are dropped where there is not room for all; the last goes first.
struct AlertColumn {
  enum Drops : int { never, endings, rule_names, since };
};

Tone tone_of(AlertLevel level) {
  if (level == AlertLevel::info) return Tone::plain;
  return level == AlertLevel::warning ? Tone::warning : Tone::bad;
}

std::string gpu_text(const std::optional<protocol::AlertGpu>& gpu) {
  if (!gpu) return std::string(kNothing);
  return gpu->index ? std::to_string(*gpu->index) : gpu->uuid;
}

// Says what is special about a firing alert.
std::string state_text(const Alert& alert) {
  std::vector<std::string> words;
  if (alert.quarantines)
    words.push_back(fmt::format("GPU {} is quarantined", gpu_text(alert.device)));
  if (alert.acknowledged) words.push_back("acknowledged by " + alert.acknowledged->by);
  if (alert.silenced) words.emplace_back("silenced");
  if (alert.inhibited_by) words.push_back("inhibited by " + *alert.inhibited_by);
  return fmt::format("{}", fmt::join(words, ", "));
}

Printable pending_text(const protocol::PendingAlert& one) {
  return formatted("Pending: {}{}, for {} of {}\n", one.rule,
                   one.gpu ? " on GPU " + gpu_text(one.gpu) : "", length_text(one.for_s),
                   length_text(one.hold_s));
}

std::string number_text(double value) {
  return fmt::format("{}", value);
}

std::string actions_text(const protocol::Rule& rule) {
  std::vector<std::string> actions;
  if (rule.notify) actions.emplace_back("notify");
  if (rule.quarantine) actions.emplace_back("quarantine");
  if (rule.cap_w) actions.push_back(fmt::format("cap to {} W", *rule.cap_w));
  if (rule.program) actions.push_back("run " + *rule.program);
  return fmt::format("{}", fmt::join(actions, ", "));
}

}  // namespace

std::string name_text(const Alert& alert) {
  return fmt::format("{} {}{}", alert.number, alert.rule,
                     alert.device ? " on GPU " + gpu_text(alert.device) : "");
}

Printable alerts_text(const protocol::Alerts& alerts, WallTime now, const Screen& screen) {
  FittedTable table{{{"ALERT", true},
                     {"LEVEL"},
                     {"SEVERITY", true},
                     {"GPU", true},
                     {heading_with_zone("SINCE", now), false, AlertColumn::since},
                     {"RULE", false, AlertColumn::rule_names},
                     {"MESSAGE"}}};
  for (const Alert& alert : alerts.alerts) {
    const Tone tone = tone_of(alert.level);
    table.add({{std::to_string(alert.number)},
               {std::string(name_of(alert.level)), tone},
               {std::to_string(alert.severity), tone},
               {gpu_text(alert.device)},
               {local_moment(alert.fired, now)},
               {alert.rule},
               {alert.message}});
  }
  const bool all_is_known = alerts.notes.empty();
  Printable text = !alerts.alerts.empty() ? table.text(screen)
                   : all_is_known         ? Printable("No alerts are firing.\n")
                                  : "No alerts are firing, but some conditions are unknown.\n";
  for (const Alert& alert : alerts.alerts) {
    const std::string state = state_text(alert);
    if (!state.empty()) text += formatted("{}: {}\n", alert.number, state);
    if (!alert.advice.empty() && !alert.acknowledged) {
      text += formatted("{}: {}\n", alert.number, alert.advice);
    }
  }
  for (const protocol::PendingAlert& one : alerts.pending) text += pending_text(one);
  for (const std::string& note : alerts.notes) text += formatted("{}\n", note);
  return text + simulated_text(alerts.simulated);
}

Printable history_text(const protocol::AlertHistory& history, WallTime now, const Screen& screen) {
  FittedTable table{{{"ALERT", true},
                     {"LEVEL"},
                     {"GPU", true},
                     {heading_with_zone("FROM", now), false, AlertColumn::since},
                     {heading_with_zone("UNTIL", now)},
                     {"RULE", false, AlertColumn::rule_names},
                     {"MESSAGE"},
                     {"END REASON", false, AlertColumn::endings}}};
  for (const Alert& alert : history.alerts) {
    table.add({{std::to_string(alert.number)},
               {std::string(name_of(alert.level)), tone_of(alert.level)},
               {gpu_text(alert.device)},
               {local_moment(alert.fired, now)},
               {alert.resolved ? local_moment(*alert.resolved, now) : "firing"},
               {alert.rule},
               {alert.message},
               {alert.end_reason}});
  }
  if (history.alerts.empty())
    return Printable("No alerts recorded.\n") + simulated_text(history.simulated);
  return table.text(screen) + simulated_text(history.simulated);
}

Printable silences_text(const protocol::Silences& silences, WallTime now, const Screen& screen) {
  if (silences.silences.empty()) return "No active silences.\n";
  FittedTable table{{{"ID"},
                     {"RULE"},
                     {"GPU"},
                     {heading_with_zone("UNTIL", now)},
                     {"BY", false, AlertColumn::since},
                     {"NOTE"}}};
  for (const protocol::Silence& one : silences.silences) {
    table.add({{one.id},
               {one.rule.empty() ? "any" : one.rule},
               {one.gpu.empty() ? "any" : one.gpu},
               {local_moment(one.until, now)},
               {one.by},
               {one.comment}});
  }
  return table.text(screen);
}

Printable rules_text(const protocol::Rules& rules, const Screen& screen) {
  FittedTable table{{{"RULE"},
                     {"SIGNAL"},
                     {"THRESHOLD", true},
                     {"HOLD", true, AlertColumn::since},
                     {"CLEARS AT", true, AlertColumn::rule_names},
                     {"CLEAR HOLD", true, AlertColumn::since},
                     {"SEVERITY", true},
                     {"ACTIONS"}}};
  for (const protocol::Rule& rule : rules.rules) {
    const double clear = rule.clear_at.value_or(rule.at);
    table.add({{rule.name + (rule.enabled ? "" : " (disabled)"),
                rule.enabled ? Tone::plain : Tone::faint},
               {rule.on},
               {(rule.below ? "<= " : ">= ") + number_text(rule.at)},
               {length_text(to_seconds(rule.hold))},
               {(rule.below ? "> " : "< ") + number_text(clear)},
               {length_text(to_seconds(rule.over.value_or(rule.clear_hold)))},
               {rule.fixed_severity ? std::to_string(*rule.fixed_severity)
                                    : std::string(enum_name(rule.curve))},
               {actions_text(rule)}});
  }
  Printable text = table.text(screen);
  text += rules.file.empty() ? Printable(
                                   "All rules are built in. To change them or add rules, set "
                                   "alerts.file in the configuration.\n")
                             : formatted("Built-in rules, with changes from {}.\n", rules.file);
  return text;
}

Printable sinks_text(const protocol::Sinks& sinks, WallTime now, const Screen& screen) {
  FittedTable table{{{"SINK"},
                     {"KIND"},
                     {"TARGET", false, AlertColumn::rule_names},
                     {"MIN LEVEL", false, AlertColumn::since},
                     {"QUEUED", true},
                     {"DELIVERED", true},
                     {"RETRIES", true, AlertColumn::endings},
                     {"DROPPED", true}}};
  Printable troubles;
  for (const protocol::Sink& sink : sinks.sinks) {
    const bool closed = sink.closed.value_or(false);
    table.add({{sink.name, sink.failing_since || closed ? Tone::bad : Tone::plain},
               {sink.kind},
               {sink.where},
               {sink.min_level},
               {std::to_string(sink.queued)},
               {std::to_string(sink.delivered_total)},
               {std::to_string(sink.retries_total)},
               {std::to_string(sink.dead_letters_total)}});
    if (closed) {
      troubles += formatted("{} is closed: {}\n", sink.name, sink.last_error.value_or(""));
    } else if (sink.failing_since) {
      troubles += formatted("{} has received nothing since {} {}: {}\n", sink.name,
                            local_moment(*sink.failing_since, now), zone_name(now),
                            sink.last_error.value_or(""));
    }
  }
  return table.text(screen) + troubles;
}

Printable sink_tests_text(const protocol::SinkTests& tests) {
  Printable text;
  for (const protocol::SinkTest& one : tests.sinks) {
    text += one.delivered ? formatted("{}: delivered in {:.2f} s\n", one.sink, one.seconds)
                          : formatted("{}: not delivered: {}\n", one.sink, one.why.value_or(""));
  }
  return text;
}

}  // namespace gpuyard::cli
