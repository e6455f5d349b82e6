#include "andon/engine.h"

#include <algorithm>

#include "andon/alert.h"
#include "device/snapshot.h"

namespace gpuyard::andon {
namespace {

bool concerns(const Rule& rule, const DeviceInfo& gpu) {
  return rule.gpus.empty() || std::ranges::any_of(rule.gpus, [&](const std::string& name) {
           return has_name(gpu, name);
         });
}

bool lists(const Rule& rule, const DeviceEvent& event) {
  const auto* const source = std::get_if<EventSource>(&rule.source);
  return source != nullptr && source->kind == event.kind && event.xid &&
         std::ranges::find(source->xids, *event.xid) != source->xids.end();
}

// Returns the worst of the metric's elements.
std::optional<double> worst(const MetricSource& source, bool below, const Sample& sample) {
  std::optional<double> found;
  for (const Reading& reading : sample.all(source.metric)) {
    if (reading.number() == nullptr) continue;
    const double value = static_cast<double>(*reading.number()) / source.divisor;
    if (!found || (below ? value < *found : value > *found)) found = value;
  }
  return found;
}

std::string index_of(const Alert& alert) {
  return alert.index ? std::to_string(*alert.index) : alert.gpu;
}

void describe(Alert& alert, const Rule& rule, double value, const GpuFacts* gpu) {
  alert.value = value;
  alert.severity = rule.severity_of(value);
  alert.advice = rule.advice;
  alert.message = message_of(rule, {index_of(alert), alert.gpu_name, value, alert.xid,
                                    gpu != nullptr ? gpu->why : std::string()});
}

void name(Alert& alert, const GpuFacts* gpu) {
  if (gpu == nullptr) return;
  alert.gpu = gpu->info.id;
  alert.index = gpu->info.index;
  alert.gpu_name = gpu->info.name;
  alert.pci_address = gpu->info.pci_address;
}

}  // namespace

void Engine::take(Rules rules) {
  rules_ = std::move(rules);
  inhibiting_.clear();
  for (std::size_t place = 0; place < rules_.size(); ++place) {
    if (rules_[place].enabled && !rules_[place].inhibits.empty()) inhibiting_.push_back(place);
  }
}

void Engine::on_event(const DeviceEvent& event) {
  if (event.device.empty() || events_.size() >= kMostEvents) return;
  events_.push_back(event);
}

void Engine::count_events() {
  for (const DeviceEvent& event : std::exchange(events_, {})) {
    const bool listed =
        std::ranges::any_of(rules_, [&](const Rule& rule) { return lists(rule, event); });
    for (const Rule& rule : rules_) {
      const auto* const source = std::get_if<EventSource>(&rule.source);
      if (source == nullptr || source->kind != event.kind || !rule.enabled) continue;
      if (!lists(rule, event) && (listed || !source->xids.empty())) continue;
      count(tracks_[rule.name][event.device], event);
    }
  }
}

// An event after the alert was acknowledged, or another Xid, is news of the same alert. It is told
// once that is allowed, see refresh().
void Engine::count(Track& track, const DeviceEvent& event) {
  constexpr std::size_t kMostXids = 64;
  track.occurrences.add(event.at, event.xid);
  const bool another =
      event.xid && track.xids.size() < kMostXids && track.xids.insert(*event.xid).second;
  if (track.alert && (another || track.alert->acknowledged)) track.renewed = true;
}

std::vector<Change> Engine::tick(const Facts& facts, TimePoint now, WallTime wall) {
  count_events();
  std::vector<Change> changes;
  // Rules that inhibit others go first, so that the others say nothing in the same tick.
  for (const bool inhibits : {true, false}) {
    note_quiet_gpus();
    for (const Rule& rule : rules_) {
      if (!rule.enabled || rule.inhibits.empty() == inhibits) continue;
      look_at_all(rule, facts, now, wall, changes);
    }
  }
  if (now < forget_at_ && forget_at_ - now <= kForgetEvery) return changes;
  forget_at_ = now + kForgetEvery;
  std::set<DeviceId> there = {DeviceId{}};
  for (const GpuFacts& gpu : facts.gpus) there.insert(gpu.info.id);
  for (auto& [rule, tracks] : tracks_) forget(tracks, there, now, wall, changes);
  return changes;
}

void Engine::note_quiet_gpus() {
  quiet_gpus_.clear();
  for (const std::size_t place : inhibiting_) {
    const auto tracks = tracks_.find(rules_[place].name);
    if (tracks == tracks_.end()) continue;
    for (const auto& [gpu, track] : tracks->second) {
      if (track.alert) quiet_gpus_.insert(gpu);
    }
  }
}

void Engine::look_at_all(const Rule& rule, const Facts& facts, TimePoint now, WallTime wall,
                         std::vector<Change>& changes) {
  Tracks& tracks = tracks_[rule.name];
  if (rule.of_node()) {
    look(rule, tracks, nullptr, facts, now, wall, changes);
  } else {
    end_elsewhere(tracks, DeviceId{}, wall, changes);
  }
  for (const GpuFacts& gpu : facts.gpus) {
    if (!rule.of_node() && concerns(rule, gpu.info)) {
      look(rule, tracks, &gpu, facts, now, wall, changes);
    } else {
      end_elsewhere(tracks, gpu.info.id, wall, changes);
    }
  }
}

// Ends the alert of a GPU, or of the machine, that the rule no longer covers.
void Engine::end_elsewhere(Tracks& tracks, const DeviceId& gpu, WallTime wall,
                           std::vector<Change>& changes) {
  const auto track = tracks.find(gpu);
  if (track == tracks.end()) return;
  if (track->second.alert) resolve(track->second, wall, "its rule is about others now", changes);
  tracks.erase(track);
}

std::optional<double> Engine::value_of(const Rule& rule, Track& track, const GpuFacts* gpu,
                                       const Facts& facts, TimePoint now) {
  if (const auto* const signal = std::get_if<Signal>(&rule.source)) {
    return gpu != nullptr ? gpu->signals[*signal] : facts.node[*signal];
  }
  if (std::holds_alternative<EventSource>(rule.source)) {
    return track.occurrences.count(rule.over.value_or(Duration::zero()), now);
  }
  if (gpu == nullptr || gpu->sample == nullptr) return std::nullopt;
  const auto value = worst(std::get<MetricSource>(rule.source), rule.below, *gpu->sample);
  return value && rule.over ? track.growth.note(*value, *rule.over, now) : value;
}

void Engine::look(const Rule& rule, Tracks& tracks, const GpuFacts* gpu, const Facts& facts,
                  TimePoint now, WallTime wall, std::vector<Change>& changes) {
  Track& track = tracks[gpu != nullptr ? gpu->info.id : DeviceId{}];
  track.unseen.reset();
  if (gpu != nullptr) track.index = gpu->info.index;
  auto value = value_of(rule, track, gpu, facts, now);
  const bool may_be_quiet = gpu != nullptr && quiet_gpus_.count(gpu->info.id) > 0;
  if (may_be_quiet && !inhibitor(rule.name, gpu->info.id).empty()) value.reset();
  step(rule, track, value, now);
  if (!value) return;
  if (!track.alert && track.reached && now - *track.reached >= rule.hold) {
    fire(rule, track, gpu, facts.simulated, wall, changes);
  } else if (track.alert && track.clear && now - *track.clear >= rule.clear_hold &&
             !(track.not_clear_before && now < *track.not_clear_before)) {
    resolve(track, wall, "", changes);
  } else if (track.alert) {
    refresh(rule, track, gpu, changes);
  }
}

// An unknown value trips nothing and clears nothing; both holds begin anew after it.
void Engine::step(const Rule& rule, Track& track, std::optional<double> value, TimePoint now) {
  const auto since = [now](std::optional<TimePoint>& moment, bool is) {
    if (!is) moment.reset();
    if (is && (!moment || *moment > now)) moment = now;
  };
  since(track.reached, value && rule.reached(*value));
  since(track.clear, value && rule.clear(*value));
  if (value) track.value = *value;
}

void Engine::fire(const Rule& rule, Track& track, const GpuFacts* gpu, bool simulated,
                  WallTime wall, std::vector<Change>& changes) {
  Alert alert;
  alert.number = ++last_number_;
  alert.rule = rule.name;
  name(alert, gpu);
  alert.xid = track.occurrences.last_xid();
  track.xids.clear();
  if (alert.xid) track.xids.insert(*alert.xid);
  track.renewed = false;
  track.not_clear_before.reset();
  alert.fired = wall;
  alert.simulated = simulated;
  describe(alert, rule, track.value, gpu);
  track.alert = alert;
  changes.push_back({Change::Kind::fired, std::move(alert)});
}

void Engine::refresh(const Rule& rule, Track& track, const GpuFacts* gpu,
                     std::vector<Change>& changes) {
  Alert& alert = *track.alert;
  const bool moved = gpu != nullptr &&
                     (alert.index != gpu->info.index || alert.pci_address != gpu->info.pci_address);
  const bool same = alert.value == track.value && !moved && !track.renewed;
  // Between the two levels, and while it clears, the alert keeps its last severity.
  if (same || (!rule.reached(track.value) && !moved)) return;
  const AlertLevel before = level_of(alert.severity);
  name(alert, gpu);
  if (track.occurrences.last_xid()) alert.xid = track.occurrences.last_xid();
  describe(alert, rule, rule.reached(track.value) ? track.value : alert.value, gpu);
  const bool news = std::exchange(track.renewed, false);
  if (news) {
    alert.acknowledged.reset();
    alert.told.reset();
  }
  if (news || level_of(alert.severity) > before) {
    changes.push_back({Change::Kind::worse, alert});
  }
}

void Engine::resolve(Track& track, WallTime wall, std::string why, std::vector<Change>& changes) {
  Alert alert = *std::exchange(track.alert, std::nullopt);
  track.reached.reset();
  track.clear.reset();
  alert.state = State::resolved;
  alert.resolved = wall;
  alert.ending = std::move(why);
  changes.push_back({Change::Kind::resolved, std::move(alert)});
}

// Forgets GPUs that are not listed any more.
void Engine::forget(Tracks& tracks, const std::set<DeviceId>& there, TimePoint now, WallTime wall,
                    std::vector<Change>& changes) {
  for (auto track = tracks.begin(); track != tracks.end();) {
    Track& one = track->second;
    const bool gone = there.count(track->first) == 0;
    if (gone && !one.unseen) one.unseen = now;
    if (!gone || (one.alert && now - *one.unseen < kForgetAfter)) {
      ++track;
      continue;
    }
    if (one.alert) resolve(one, wall, "the GPU is not in this machine any more", changes);
    track = tracks.erase(track);
  }
}

void Occurrences::add(TimePoint at, std::optional<std::uint32_t> xid) {
  if (times_.size() == kMost) times_.pop_front();
  times_.push_back(at);
  if (xid) last_xid_ = xid;
}

double Occurrences::count(Duration over, TimePoint now) {
  while (!times_.empty() && now - times_.front() >= over) times_.pop_front();
  return static_cast<double>(times_.size());
}

std::optional<double> Growth::note(double counter, Duration over, TimePoint now) {
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
