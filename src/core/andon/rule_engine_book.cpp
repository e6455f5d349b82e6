// The parts of RuleEngine that do not belong to a tick: restoring, replacing rules, acknowledging,
// and queries.
#include <algorithm>
#include <utility>

#include "core/andon/rule_engine.h"
#include "gpu/device/xid.h"

namespace gpuyard::andon {
namespace {

// Whether both rules evaluate the same value, over the same window.
bool has_same_source(const Rule& one, const Rule& other) {
  return one.on == other.on && one.over == other.over;
}

// Whether both rules also evaluate it in the same way.
bool has_same_condition(const Rule& one, const Rule& other) {
  return has_same_source(one, other) && one.at == other.at && one.below == other.below &&
         one.clear_at == other.clear_at && one.enabled == other.enabled;
}

// Returns the driver's text, which stands behind the meaning in the messages of the built-in rules;
// "" if there is none.
std::string driver_text_in(const Alert& alert) {
  const std::string_view meaning = alert.xid ? xid_row(*alert.xid).meaning : std::string_view();
  const std::size_t at = meaning.empty() ? std::string::npos : alert.message.find(meaning);
  if (at == std::string::npos) return "";
  const std::string_view rest = std::string_view(alert.message).substr(at + meaning.size());
  if (!rest.starts_with(" (") || !rest.ends_with(")")) return "";
  return std::string(rest.substr(2, rest.size() - 3));
}

}  // namespace

void RuleEngine::restore(const std::vector<Alert>& firing, std::uint64_t last_number,
                         TimePoint now) {
  last_number_ = std::max(last_number_, last_number);
  for (const Alert& alert : firing) {
    RuleState& state = states_[alert.rule][alert.gpu];
    state.alert = alert;
    state.value = alert.value;
    state.index = alert.index.value_or(0);
    // The times of the events were not saved: they count as if they came now.
    if (alert.xid) state.xids.insert(*alert.xid);
    const std::string driver_text = driver_text_in(alert);
    state.alert->driver_text = driver_text;
    const Rule* const rule = find_rule(rules_, alert.rule);
    if (rule == nullptr || !rule->over) continue;
    state.not_clear_before = now + *rule->over;
    if (!std::holds_alternative<EventCondition>(rule->source)) continue;
    for (int n = 0; n < std::min(rule->at, 1.0 * EventWindow::kMaxEvents); ++n) {
      state.event_window.add(now, alert.xid, driver_text);
    }
  }
}

std::vector<AlertTransition> RuleEngine::replace(Rules rules, WallTime wall) {
  const Rules before = std::exchange(rules_, {});
  set_rules(std::move(rules));
  std::vector<AlertTransition> changes;
  for (auto& [name, states] : states_) {
    const Rule* const rule = find_rule(rules_, name);
    const Rule* const was = find_rule(before, name);
    const bool goes_on = rule != nullptr && rule->enabled;
    const bool both = rule != nullptr && was != nullptr;
    for (auto& [gpu, state] : states) {
      if (both && goes_on && has_same_condition(*rule, *was)) continue;
      state.reached_since.reset();
      state.clear_since.reset();
      if (!both || !has_same_source(*rule, *was)) {
        state.counter_window = {};
        state.event_window = {};
      }
      if (!goes_on && state.alert) {
        resolve(state, wall, rule != nullptr ? "its rule was disabled" : "its rule was removed",
                changes);
      }
    }
  }
  std::erase_if(states_, [&](const auto& one) { return find_rule(rules_, one.first) == nullptr; });
  return changes;
}

std::vector<AlertTransition> RuleEngine::remove_gpu(const DeviceId& gpu, const std::string& why,
                                                    WallTime wall) {
  std::vector<AlertTransition> changes;
  for (auto& [rule, states] : states_) {
    const auto state = states.find(gpu);
    if (gpu.empty() || state == states.end()) continue;
    if (state->second.alert) resolve(state->second, wall, why, changes);
    states.erase(state);
  }
  return changes;
}

void RuleEngine::acknowledge(std::uint64_t number, Acknowledgement by) {
  if (RuleState* const state = state_of(number)) state->alert->acknowledged = std::move(by);
}

void RuleEngine::record_notified(std::uint64_t number, std::optional<int> severity,
                                 const std::vector<std::string>& sinks) {
  RuleState* const state = state_of(number);
  if (state == nullptr) return;
  Alert& alert = *state->alert;
  if (severity) alert.notified_severity = std::max(*severity, alert.notified_severity.value_or(0));
  for (const std::string& sink : sinks) {
    if (std::ranges::find(alert.notified_sinks, sink) == alert.notified_sinks.end()) {
      alert.notified_sinks.push_back(sink);
    }
  }
}

RuleEngine::RuleState* RuleEngine::state_of(std::uint64_t number) {
  for (auto& [rule, states] : states_) {
    for (auto& [gpu, state] : states) {
      if (state.alert && state.alert->number == number) return &state;
    }
  }
  return nullptr;
}

const Alert* RuleEngine::find(std::uint64_t number) const {
  for (const auto& [rule, states] : states_) {
    for (const auto& [gpu, state] : states) {
      if (state.alert && state.alert->number == number) return &*state.alert;
    }
  }
  return nullptr;
}

std::vector<Alert> RuleEngine::firing_alerts() const {
  std::vector<Alert> all;
  for (const auto& [rule, states] : states_) {
    for (const auto& [gpu, state] : states) {
      if (state.alert) all.push_back(*state.alert);
    }
  }
  std::ranges::sort(all, {}, &Alert::number);
  return all;
}

std::vector<PendingAlert> RuleEngine::pending_alerts(TimePoint now) const {
  std::vector<PendingAlert> all;
  for (const Rule& rule : rules_) {
    const auto states = states_.find(rule.name);
    if (states == states_.end()) continue;
    for (const auto& [gpu, state] : states->second) {
      if (state.alert || !state.reached_since) continue;
      all.push_back(
          {rule.name, gpu, state.index, state.value, now - *state.reached_since, rule.hold});
    }
  }
  return all;
}

// Among rules that inhibit each other, the first to fire is not inhibited; otherwise none would
// ever end.
std::string RuleEngine::inhibitor(const std::string& rule, const DeviceId& gpu) const {
  const Rule* const self = find_rule(rules_, rule);
  const bool inhibits = self != nullptr && !self->inhibits.empty();
  const Alert* const own = inhibits ? alert_of(rule, gpu) : nullptr;
  for (const std::size_t rule_index : inhibiting_rules_) {
    const Rule& other = rules_[rule_index];
    if (other.name == rule) continue;
    const bool meant = std::ranges::any_of(
        other.inhibits, [&](const std::string& one) { return one == "*" || one == rule; });
    const Alert* const alert = meant ? alert_of(other.name, gpu) : nullptr;
    if (alert != nullptr && (own == nullptr || alert->number < own->number)) return other.name;
  }
  return {};
}

const Alert* RuleEngine::alert_of(const std::string& rule, const DeviceId& gpu) const {
  const auto states = states_.find(rule);
  if (states == states_.end()) return nullptr;
  const auto state = states->second.find(gpu);
  return state != states->second.end() && state->second.alert ? &*state->second.alert : nullptr;
}

}  // namespace gpuyard::andon
