#include "core/andon/rule_engine.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "core/andon/alert_severity.h"
#include "core/andon/sliding_windows.h"
#include "gpu/device/snapshot.h"
#include "gpu/device/xid.h"

namespace gpuyard::andon {
namespace {

bool matches_gpu(const Rule& rule, const DeviceInfo& gpu) {
  return rule.gpus.empty() || std::ranges::any_of(rule.gpus, [&](const std::string& name) {
           return has_name(gpu, name);
         });
}

// Returns the rule's condition if the event matches it; null if it does not.
const EventCondition* matching_condition(const Rule& rule, const DeviceEvent& event) {
  const auto* const source = std::get_if<EventCondition>(&rule.source);
  if (source == nullptr || source->kind != event.kind) return nullptr;
  const auto& severities = source->severities;
  const bool fits =
      severities.empty() || std::ranges::find(severities, severity_of(event)) != severities.end();
  return fits ? source : nullptr;
}

bool contains_xid(const Rule& rule, const DeviceEvent& event) {
  const EventCondition* const source = matching_condition(rule, event);
  return source != nullptr && event.xid &&
         std::ranges::find(source->xids, *event.xid) != source->xids.end();
}

// Returns the rules that count the event.
std::vector<const Rule*> rules_for(const Rules& rules, const DeviceEvent& event) {
  const bool listed =
      std::ranges::any_of(rules, [&](const Rule& rule) { return contains_xid(rule, event); });
  std::vector<const Rule*> found;
  for (const Rule& rule : rules) {
    const EventCondition* const source = matching_condition(rule, event);
    if (source == nullptr || !rule.enabled) continue;
    if (!contains_xid(rule, event) && (listed || !source->xids.empty())) continue;
    found.push_back(&rule);
  }
  return found;
}

std::string driver_text_of(const DeviceEvent& event) {
  return printable(std::string_view(event.text).substr(0, RuleEngine::kMaxTextBytes));
}

// Returns the worst of the metric's elements.
std::optional<double> worst_value(const MetricSource& source, bool below, const Sample& sample) {
  std::optional<double> found;
  for (const Reading& reading : sample.all(source.metric)) {
    if (reading.number() == nullptr) continue;
    const double value = static_cast<double>(*reading.number()) / source.divisor;
    if (!found || (below ? value < *found : value > *found)) found = value;
  }
  return found;
}

// The index that the GPU has, or had when the driver listed it last.
std::uint32_t last_index(const DeviceInfo& info) {
  return info.former_index.value_or(info.index);
}

void update_texts(Alert& alert, const Rule& rule, double value, const GpuFacts* gpu,
                  bool displaced) {
  alert.value = value;
  alert.severity = rule.severity_of(value);
  const std::string name = spoken_name(alert.gpu, alert.index, !displaced);
  // Braces of other words stay: an advice has no placeholder but this.
  alert.advice = replace_all(rule.advice, "{gpu}", name);
  alert.message = message_of(
      rule, {name, alert.gpu_name, value, alert.xid, gpu != nullptr ? gpu->why : std::string(),
             alert.driver_text, gpu != nullptr ? gpu->unleased : std::string(),
             gpu != nullptr ? gpu->pod : std::string()});
}

void set_gpu(Alert& alert, const GpuFacts* gpu) {
  if (gpu == nullptr) return;
  alert.gpu = gpu->info.id;
  alert.index = last_index(gpu->info);
  alert.gpu_name = gpu->info.name;
  alert.pci_address = gpu->info.pci_address;
}

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

void RuleEngine::set_rules(Rules rules) {
  rules_ = std::move(rules);
  inhibiting_rules_.clear();
  for (std::size_t rule_index = 0; rule_index < rules_.size(); ++rule_index) {
    if (rules_[rule_index].enabled && !rules_[rule_index].inhibits.empty())
      inhibiting_rules_.push_back(rule_index);
  }
}

void RuleEngine::on_event(const DeviceEvent& event) {
  if (!event.device.empty()) enqueue_event(events_, event);
}

void RuleEngine::on_echo(const DeviceEvent& event) {
  if (!event.device.empty() && !event.text.empty()) enqueue_event(echoes_, event);
}

void RuleEngine::enqueue_event(std::vector<DeviceEvent>& queue, const DeviceEvent& event) {
  if (queue.size() < kMaxEvents) return queue.push_back(event);
  ++dropped_events_;
  const auto is_note = [](const DeviceEvent& one) {
    return severity_of(one) == EventSeverity::note;
  };
  if (is_note(event)) return;
  const auto note = std::ranges::find_if(queue, is_note);
  if (note != queue.end()) *note = event;
}

void RuleEngine::count_events() {
  for (const DeviceEvent& event : std::exchange(events_, {})) {
    for (const Rule* rule : rules_for(rules_, event)) {
      count(states_[rule->name][event.device], event);
    }
  }
}

// The first event had no text: if both are of one rule, it is counted already.
void RuleEngine::count_echoes() {
  for (const DeviceEvent& echo : std::exchange(echoes_, {})) {
    DeviceEvent first = echo;
    first.text.clear();
    const auto counted = rules_for(rules_, first);
    for (const Rule* rule : rules_for(rules_, echo)) {
      RuleState& state = states_[rule->name][echo.device];
      if (std::ranges::find(counted, rule) == counted.end()) {
        count(state, echo);
      } else if (state.event_window.last_xid() == echo.xid) {
        state.event_window.set_last_text(driver_text_of(echo));
        state.text_changed = true;
      }
    }
  }
}

// An event after the alert was acknowledged, or another Xid, is news of the same alert. Sinks are
// notified once that is allowed, see refresh().
void RuleEngine::count(RuleState& state, const DeviceEvent& event) {
  constexpr std::size_t kMaxXids = 64;
  state.event_window.add(event.at, event.xid, driver_text_of(event));
  const bool another =
      event.xid && state.xids.size() < kMaxXids && state.xids.insert(*event.xid).second;
  if (state.alert && (another || state.alert->acknowledged)) state.renotify = true;
}

std::vector<AlertTransition> RuleEngine::tick(const Facts& facts, TimePoint now, WallTime wall) {
  count_events();
  count_echoes();
  indexes_.clear();
  for (const GpuFacts& gpu : facts.gpus) {
    if (!is_missing(gpu.info)) indexes_.emplace(gpu.info.index, gpu.info.id);
  }
  Tick tick{facts, now, wall};
  // Rules that inhibit others go first, so that the others do not fire in the same tick.
  for (const bool inhibits : {true, false}) {
    update_inhibited();
    for (const Rule& rule : rules_) {
      if (!rule.enabled || rule.inhibits.empty() == inhibits) continue;
      evaluate_all(rule, tick);
    }
  }
  refresh_names(facts);
  if (now < evict_at_ && evict_at_ - now <= kEvictionInterval) return std::move(tick.changes);
  evict_at_ = now + kEvictionInterval;
  std::set<DeviceId> present = {DeviceId{}};
  for (const GpuFacts& gpu : facts.gpus) present.insert(gpu.info.id);
  for (auto& [rule, states] : states_) evict_absent(states, present, tick);
  return std::move(tick.changes);
}

// Rewords the alert's message if its GPU's index now belongs to another GPU, or is its own again.
void RuleEngine::refresh_names(const Facts& facts) {
  for (const Rule& rule : rules_) {
    for (auto& [id, state] : states_[rule.name]) {
      if (!state.alert || state.index_reused == is_index_reused(*state.alert)) continue;
      state.index_reused = !state.index_reused;
      const auto gpu = std::ranges::find_if(
          facts.gpus, [&gpu_id = id](const GpuFacts& one) { return one.info.id == gpu_id; });
      update_texts(*state.alert, rule, state.alert->value,
                   gpu != facts.gpus.end() ? &*gpu : nullptr, state.index_reused);
    }
  }
}

bool RuleEngine::is_index_reused(const Alert& alert) const {
  if (!alert.index || alert.gpu.empty()) return false;
  const auto now = indexes_.find(*alert.index);
  return now != indexes_.end() && now->second != alert.gpu;
}

void RuleEngine::update_inhibited() {
  inhibited_gpus_.clear();
  for (const std::size_t rule_index : inhibiting_rules_) {
    const auto states = states_.find(rules_[rule_index].name);
    if (states == states_.end()) continue;
    for (const auto& [gpu, state] : states->second) {
      if (state.alert) inhibited_gpus_.insert(gpu);
    }
  }
}

void RuleEngine::evaluate_all(const Rule& rule, Tick& tick) {
  RuleStates& states = states_[rule.name];
  if (rule.is_of_node()) {
    evaluate(rule, states, nullptr, tick);
  } else {
    resolve_uncovered(states, DeviceId{}, tick);
  }
  for (const GpuFacts& gpu : tick.facts.gpus) {
    if (!rule.is_of_node() && matches_gpu(rule, gpu.info)) {
      evaluate(rule, states, &gpu, tick);
    } else {
      resolve_uncovered(states, gpu.info.id, tick);
    }
  }
}

// Ends the alert of a GPU, or of the machine, that the rule no longer covers.
void RuleEngine::resolve_uncovered(RuleStates& states, const DeviceId& gpu, Tick& tick) {
  const auto state = states.find(gpu);
  if (state == states.end()) return;
  if (state->second.alert)
    resolve(state->second, tick.wall, "its rule now applies to other GPUs", tick.changes);
  states.erase(state);
}

std::optional<double> RuleEngine::value_of(const Rule& rule, RuleState& state, const GpuFacts* gpu,
                                           const Tick& tick) {
  if (const auto* const signal = std::get_if<Signal>(&rule.source)) {
    return gpu != nullptr ? gpu->signals[*signal] : tick.facts.node[*signal];
  }
  if (std::holds_alternative<EventCondition>(rule.source)) {
    return state.event_window.count(rule.over.value_or(Duration::zero()), tick.now);
  }
  if (gpu == nullptr || gpu->sample == nullptr) return std::nullopt;
  const auto value = worst_value(std::get<MetricSource>(rule.source), rule.below, *gpu->sample);
  return value && rule.over ? state.counter_window.add(*value, *rule.over, tick.now) : value;
}

void RuleEngine::evaluate(const Rule& rule, RuleStates& states, const GpuFacts* gpu, Tick& tick) {
  static const DeviceId kNode;
  const TimePoint now = tick.now;
  RuleState& state = states[gpu != nullptr ? gpu->info.id : kNode];
  state.absent_since.reset();
  if (gpu != nullptr) state.index = last_index(gpu->info);
  auto value = value_of(rule, state, gpu, tick);
  const bool can_be_inhibited = gpu != nullptr && inhibited_gpus_.count(gpu->info.id) > 0;
  if (can_be_inhibited && !inhibitor(rule.name, gpu->info.id).empty()) value.reset();
  step(rule, state, value, now);
  if (!value) return;
  if (!state.alert && state.reached_since && now - *state.reached_since >= rule.hold) {
    fire(rule, state, gpu, tick);
  } else if (state.alert && state.clear_since && now - *state.clear_since >= rule.clear_hold &&
             !(state.not_clear_before && now < *state.not_clear_before)) {
    resolve(state, tick.wall, "", tick.changes);
  } else if (state.alert) {
    refresh(rule, state, gpu, tick.changes);
  }
}

// An unknown value trips nothing and clears nothing; both holds start again after it.
void RuleEngine::step(const Rule& rule, RuleState& state, std::optional<double> value,
                      TimePoint now) {
  const auto since = [now](std::optional<TimePoint>& moment, bool is) {
    if (!is) moment.reset();
    if (is && (!moment || *moment > now)) moment = now;
  };
  since(state.reached_since, value && rule.is_reached(*value));
  since(state.clear_since, value && rule.is_clear(*value));
  if (value) state.value = *value;
}

void RuleEngine::fire(const Rule& rule, RuleState& state, const GpuFacts* gpu, Tick& tick) {
  Alert alert;
  alert.number = ++last_number_;
  alert.rule = rule.name;
  set_gpu(alert, gpu);
  if (gpu != nullptr) state.unleased = gpu->unleased;
  alert.xid = state.event_window.last_xid();
  alert.driver_text = state.event_window.last_text();
  state.text_changed = false;
  state.xids.clear();
  if (alert.xid) state.xids.insert(*alert.xid);
  state.renotify = false;
  state.not_clear_before.reset();
  alert.fired = tick.wall;
  alert.simulated = tick.facts.simulated;
  state.index_reused = is_index_reused(alert);
  update_texts(alert, rule, state.value, gpu, state.index_reused);
  state.alert = alert;
  tick.changes.push_back({AlertTransition::Kind::fired, std::move(alert)});
}

void RuleEngine::refresh(const Rule& rule, RuleState& state, const GpuFacts* gpu,
                         std::vector<AlertTransition>& changes) {
  Alert& alert = *state.alert;
  const bool moved = gpu != nullptr && (alert.index != last_index(gpu->info) ||
                                        alert.pci_address != gpu->info.pci_address);
  // An uncorrectable memory error after the alert was acknowledged is news of the same alert.
  const bool more_errors = alert.acknowledged && state.value > alert.value &&
                           std::holds_alternative<MetricSource>(rule.source) &&
                           is_about_memory_errors(rule, alert);
  state.renotify = state.renotify || more_errors;
  const bool others = gpu != nullptr && state.unleased != gpu->unleased;
  const bool same =
      alert.value == state.value && !moved && !others && !state.renotify && !state.text_changed;
  // Between the two levels, and while it clears, the alert keeps its last severity.
  if (same || (!rule.is_reached(state.value) && !moved)) return;
  const AlertLevel before = level_of(alert.severity);
  set_gpu(alert, gpu);
  if (gpu != nullptr) state.unleased = gpu->unleased;
  if (state.event_window.last_xid()) {
    alert.xid = state.event_window.last_xid();
    alert.driver_text = state.event_window.last_text();
  }
  state.text_changed = false;
  state.index_reused = is_index_reused(alert);
  update_texts(alert, rule, rule.is_reached(state.value) ? state.value : alert.value, gpu,
               state.index_reused);
  const bool renotify = std::exchange(state.renotify, false);
  if (renotify) {
    alert.acknowledged.reset();
    alert.notified_severity.reset();
  }
  if (renotify || level_of(alert.severity) > before) {
    changes.push_back({AlertTransition::Kind::worse, alert});
  }
}

void RuleEngine::resolve(RuleState& state, WallTime wall, std::string why,
                         std::vector<AlertTransition>& changes) {
  Alert alert = *std::exchange(state.alert, std::nullopt);
  state.reached_since.reset();
  state.clear_since.reset();
  alert.state = AlertState::resolved;
  alert.resolved = wall;
  alert.end_reason = std::move(why);
  changes.push_back({AlertTransition::Kind::resolved, std::move(alert)});
}

// Removes GPUs that are no longer listed.
void RuleEngine::evict_absent(RuleStates& states, const std::set<DeviceId>& present, Tick& tick) {
  for (auto state = states.begin(); state != states.end();) {
    RuleState& one = state->second;
    const bool gone = present.count(state->first) == 0;
    if (gone && !one.absent_since) one.absent_since = tick.now;
    if (!gone || (one.alert && tick.now - *one.absent_since < kAbsentRetention)) {
      ++state;
      continue;
    }
    if (one.alert) resolve(one, tick.wall, "the GPU is no longer in this machine", tick.changes);
    state = states.erase(state);
  }
}

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
  const Alert* const alert = find(number);
  return alert != nullptr ? &states_.at(alert->rule).at(alert->gpu) : nullptr;
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
