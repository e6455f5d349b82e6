#include "core/andon/rule_engine.h"

#include <algorithm>

#include "base/text.h"
#include "core/andon/alert.h"
#include "gpu/device/snapshot.h"
#include "gpu/device/xid.h"

namespace gpuyard::andon {
namespace {

bool matches_gpu(const Rule& rule, const DeviceInfo& gpu) {
  return rule.gpus.empty() || std::ranges::any_of(rule.gpus, [&](const std::string& name) {
           return has_name(gpu, name);
         });
}

// Returns what the rule looks at if the event may be of it; null if it cannot.
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

// Braces of other words stay: an advice has no placeholder but this.
std::string fill_in_gpu(std::string advice, const std::string& gpu) {
  constexpr std::string_view kGpu = "{gpu}";
  for (std::size_t at = advice.find(kGpu); at != advice.npos; at = advice.find(kGpu, at)) {
    advice.replace(at, kGpu.size(), gpu);
    at += gpu.size();
  }
  return advice;
}

void update_texts(Alert& alert, const Rule& rule, double value, const GpuFacts* gpu,
                  bool displaced) {
  alert.value = value;
  alert.severity = rule.severity_of(value);
  const std::string name = spoken_name(alert.gpu, alert.index, !displaced);
  alert.advice = fill_in_gpu(rule.advice, name);
  alert.message = message_of(rule, {name, alert.gpu_name, value, alert.xid,
                                    gpu != nullptr ? gpu->why : std::string(), alert.driver_text});
}

void set_gpu(Alert& alert, const GpuFacts* gpu) {
  if (gpu == nullptr) return;
  alert.gpu = gpu->info.id;
  alert.index = last_index(gpu->info);
  alert.gpu_name = gpu->info.name;
  alert.pci_address = gpu->info.pci_address;
}

}  // namespace

void RuleEngine::set_rules(Rules rules) {
  rules_ = std::move(rules);
  inhibiting_rules_.clear();
  for (std::size_t place = 0; place < rules_.size(); ++place) {
    if (rules_[place].enabled && !rules_[place].inhibits.empty())
      inhibiting_rules_.push_back(place);
  }
}

void RuleEngine::on_event(const DeviceEvent& event) {
  if (!event.device.empty()) enqueue_event(events_, event);
}

void RuleEngine::on_echo(const DeviceEvent& event) {
  if (!event.device.empty() && !event.text.empty()) enqueue_event(echoes_, event);
}

void RuleEngine::enqueue_event(std::vector<DeviceEvent>& waiting, const DeviceEvent& event) {
  if (waiting.size() < kMaxEvents) return waiting.push_back(event);
  ++dropped_events_;
  const auto is_note = [](const DeviceEvent& one) {
    return severity_of(one) == EventSeverity::note;
  };
  if (is_note(event)) return;
  const auto note = std::ranges::find_if(waiting, is_note);
  if (note != waiting.end()) *note = event;
}

void RuleEngine::count_events() {
  for (const DeviceEvent& event : std::exchange(events_, {})) {
    for (const Rule* rule : rules_for(rules_, event)) {
      count(states_[rule->name][event.device], event);
    }
  }
}

// The first account had no words: where both are of one rule, it is counted already.
void RuleEngine::count_echoes() {
  for (const DeviceEvent& echo : std::exchange(echoes_, {})) {
    DeviceEvent first = echo;
    first.text.clear();
    const auto counted = rules_for(rules_, first);
    for (const Rule* rule : rules_for(rules_, echo)) {
      RuleState& track = states_[rule->name][echo.device];
      if (std::ranges::find(counted, rule) == counted.end()) {
        count(track, echo);
      } else if (track.event_window.last_xid() == echo.xid) {
        track.event_window.set_last_text(driver_text_of(echo));
        track.text_changed = true;
      }
    }
  }
}

// An event after the alert was acknowledged, or another Xid, is news of the same alert. It is told
// once that is allowed, see refresh().
void RuleEngine::count(RuleState& track, const DeviceEvent& event) {
  constexpr std::size_t kMostXids = 64;
  track.event_window.add(event.at, event.xid, driver_text_of(event));
  const bool another =
      event.xid && track.xids.size() < kMostXids && track.xids.insert(*event.xid).second;
  if (track.alert && (another || track.alert->acknowledged)) track.renotify = true;
}

std::vector<AlertTransition> RuleEngine::tick(const Facts& facts, TimePoint now, WallTime wall) {
  count_events();
  count_echoes();
  indexes_.clear();
  for (const GpuFacts& gpu : facts.gpus) {
    if (!is_missing(gpu.info)) indexes_.emplace(gpu.info.index, gpu.info.id);
  }
  std::vector<AlertTransition> changes;
  // Rules that inhibit others go first, so that the others say nothing in the same tick.
  for (const bool inhibits : {true, false}) {
    update_inhibited();
    for (const Rule& rule : rules_) {
      if (!rule.enabled || rule.inhibits.empty() == inhibits) continue;
      evaluate_all(rule, facts, now, wall, changes);
    }
  }
  refresh_names(facts);
  if (now < evict_at_ && evict_at_ - now <= kEvictionInterval) return changes;
  evict_at_ = now + kEvictionInterval;
  std::set<DeviceId> there = {DeviceId{}};
  for (const GpuFacts& gpu : facts.gpus) there.insert(gpu.info.id);
  for (auto& [rule, tracks] : states_) evict_absent(tracks, there, now, wall, changes);
  return changes;
}

// Rewords the alert's message if its GPU's index now belongs to another GPU, or is its own again.
void RuleEngine::refresh_names(const Facts& facts) {
  for (const Rule& rule : rules_) {
    for (auto& [id, track] : states_[rule.name]) {
      if (!track.alert || track.index_reused == is_index_reused(*track.alert)) continue;
      track.index_reused = !track.index_reused;
      const auto gpu = std::ranges::find_if(
          facts.gpus, [&its = id](const GpuFacts& one) { return one.info.id == its; });
      update_texts(*track.alert, rule, track.alert->value,
                   gpu != facts.gpus.end() ? &*gpu : nullptr, track.index_reused);
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
  for (const std::size_t place : inhibiting_rules_) {
    const auto tracks = states_.find(rules_[place].name);
    if (tracks == states_.end()) continue;
    for (const auto& [gpu, track] : tracks->second) {
      if (track.alert) inhibited_gpus_.insert(gpu);
    }
  }
}

void RuleEngine::evaluate_all(const Rule& rule, const Facts& facts, TimePoint now, WallTime wall,
                              std::vector<AlertTransition>& changes) {
  RuleStates& tracks = states_[rule.name];
  if (rule.is_of_node()) {
    evaluate(rule, tracks, nullptr, facts, now, wall, changes);
  } else {
    resolve_uncovered(tracks, DeviceId{}, wall, changes);
  }
  for (const GpuFacts& gpu : facts.gpus) {
    if (!rule.is_of_node() && matches_gpu(rule, gpu.info)) {
      evaluate(rule, tracks, &gpu, facts, now, wall, changes);
    } else {
      resolve_uncovered(tracks, gpu.info.id, wall, changes);
    }
  }
}

// Ends the alert of a GPU, or of the machine, that the rule no longer covers.
void RuleEngine::resolve_uncovered(RuleStates& tracks, const DeviceId& gpu, WallTime wall,
                                   std::vector<AlertTransition>& changes) {
  const auto track = tracks.find(gpu);
  if (track == tracks.end()) return;
  if (track->second.alert)
    resolve(track->second, wall, "its rule now applies to other GPUs", changes);
  tracks.erase(track);
}

std::optional<double> RuleEngine::value_of(const Rule& rule, RuleState& track, const GpuFacts* gpu,
                                           const Facts& facts, TimePoint now) {
  if (const auto* const signal = std::get_if<Signal>(&rule.source)) {
    return gpu != nullptr ? gpu->signals[*signal] : facts.node[*signal];
  }
  if (std::holds_alternative<EventCondition>(rule.source)) {
    return track.event_window.count(rule.over.value_or(Duration::zero()), now);
  }
  if (gpu == nullptr || gpu->sample == nullptr) return std::nullopt;
  const auto value = worst_value(std::get<MetricSource>(rule.source), rule.below, *gpu->sample);
  return value && rule.over ? track.counter_window.add(*value, *rule.over, now) : value;
}

void RuleEngine::evaluate(const Rule& rule, RuleStates& tracks, const GpuFacts* gpu,
                          const Facts& facts, TimePoint now, WallTime wall,
                          std::vector<AlertTransition>& changes) {
  RuleState& track = tracks[gpu != nullptr ? gpu->info.id : DeviceId{}];
  track.absent_since.reset();
  if (gpu != nullptr) track.index = last_index(gpu->info);
  auto value = value_of(rule, track, gpu, facts, now);
  const bool may_be_quiet = gpu != nullptr && inhibited_gpus_.count(gpu->info.id) > 0;
  if (may_be_quiet && !inhibitor(rule.name, gpu->info.id).empty()) value.reset();
  step(rule, track, value, now);
  if (!value) return;
  if (!track.alert && track.reached_since && now - *track.reached_since >= rule.hold) {
    fire(rule, track, gpu, facts.simulated, wall, changes);
  } else if (track.alert && track.clear_since && now - *track.clear_since >= rule.clear_hold &&
             !(track.not_clear_before && now < *track.not_clear_before)) {
    resolve(track, wall, "", changes);
  } else if (track.alert) {
    refresh(rule, track, gpu, changes);
  }
}

// An unknown value trips nothing and clears nothing; both holds begin anew after it.
void RuleEngine::step(const Rule& rule, RuleState& track, std::optional<double> value,
                      TimePoint now) {
  const auto since = [now](std::optional<TimePoint>& moment, bool is) {
    if (!is) moment.reset();
    if (is && (!moment || *moment > now)) moment = now;
  };
  since(track.reached_since, value && rule.is_reached(*value));
  since(track.clear_since, value && rule.is_clear(*value));
  if (value) track.value = *value;
}

void RuleEngine::fire(const Rule& rule, RuleState& track, const GpuFacts* gpu, bool simulated,
                      WallTime wall, std::vector<AlertTransition>& changes) {
  Alert alert;
  alert.number = ++last_number_;
  alert.rule = rule.name;
  set_gpu(alert, gpu);
  alert.xid = track.event_window.last_xid();
  alert.driver_text = track.event_window.last_text();
  track.text_changed = false;
  track.xids.clear();
  if (alert.xid) track.xids.insert(*alert.xid);
  track.renotify = false;
  track.not_clear_before.reset();
  alert.fired = wall;
  alert.simulated = simulated;
  track.index_reused = is_index_reused(alert);
  update_texts(alert, rule, track.value, gpu, track.index_reused);
  track.alert = alert;
  changes.push_back({AlertTransition::Kind::fired, std::move(alert)});
}

void RuleEngine::refresh(const Rule& rule, RuleState& track, const GpuFacts* gpu,
                         std::vector<AlertTransition>& changes) {
  Alert& alert = *track.alert;
  const bool moved = gpu != nullptr && (alert.index != last_index(gpu->info) ||
                                        alert.pci_address != gpu->info.pci_address);
  // An uncorrectable memory error after the alert was acknowledged is news of the same alert.
  const bool more_errors = alert.acknowledged && track.value > alert.value &&
                           std::holds_alternative<MetricSource>(rule.source) &&
                           is_about_memory_errors(rule, alert);
  track.renotify = track.renotify || more_errors;
  const bool same = alert.value == track.value && !moved && !track.renotify && !track.text_changed;
  // Between the two levels, and while it clears, the alert keeps its last severity.
  if (same || (!rule.is_reached(track.value) && !moved)) return;
  const AlertLevel before = level_of(alert.severity);
  set_gpu(alert, gpu);
  if (track.event_window.last_xid()) {
    alert.xid = track.event_window.last_xid();
    alert.driver_text = track.event_window.last_text();
  }
  track.text_changed = false;
  track.index_reused = is_index_reused(alert);
  update_texts(alert, rule, rule.is_reached(track.value) ? track.value : alert.value, gpu,
               track.index_reused);
  const bool news = std::exchange(track.renotify, false);
  if (news) {
    alert.acknowledged.reset();
    alert.notified_severity.reset();
  }
  if (news || level_of(alert.severity) > before) {
    changes.push_back({AlertTransition::Kind::worse, alert});
  }
}

void RuleEngine::resolve(RuleState& track, WallTime wall, std::string why,
                         std::vector<AlertTransition>& changes) {
  Alert alert = *std::exchange(track.alert, std::nullopt);
  track.reached_since.reset();
  track.clear_since.reset();
  alert.state = AlertState::resolved;
  alert.resolved = wall;
  alert.end_reason = std::move(why);
  changes.push_back({AlertTransition::Kind::resolved, std::move(alert)});
}

// Forgets GPUs that are no longer listed.
void RuleEngine::evict_absent(RuleStates& tracks, const std::set<DeviceId>& there, TimePoint now,
                              WallTime wall, std::vector<AlertTransition>& changes) {
  for (auto track = tracks.begin(); track != tracks.end();) {
    RuleState& one = track->second;
    const bool gone = there.count(track->first) == 0;
    if (gone && !one.absent_since) one.absent_since = now;
    if (!gone || (one.alert && now - *one.absent_since < kAbsentRetention)) {
      ++track;
      continue;
    }
    if (one.alert) resolve(one, wall, "the GPU is no longer in this machine", changes);
    track = tracks.erase(track);
  }
}

void EventWindow::add(TimePoint at, std::optional<std::uint32_t> xid, std::string words) {
  if (times_.size() == kMaxEvents) times_.pop_front();
  times_.push_back(at);
  if (!xid) return;
  last_xid_ = xid;
  last_text_ = std::move(words);
}

double EventWindow::count(Duration over, TimePoint now) {
  while (!times_.empty() && now - times_.front() >= over) times_.pop_front();
  return static_cast<double>(times_.size());
}

std::optional<double> CounterWindow::add(double counter, Duration over, TimePoint now) {
  const bool back =
      !points_.empty() && (counter < points_.back().counter || now < points_.back().at);
  if (back) points_.clear();
  // The oldest point kept is the newest one that is at least `over` old.
  while (points_.size() > 1 && now - points_[1].at >= over) points_.pop_front();
  const bool first = points_.empty();
  if (points_.size() < 2 || now - points_[points_.size() - 2].at >= over / kParts) {
    points_.push_back({now, counter});
  } else {
    points_.back() = {now, counter};
  }
  if (first) return std::nullopt;
  return counter - points_.front().counter;
}

}  // namespace gpuyard::andon
