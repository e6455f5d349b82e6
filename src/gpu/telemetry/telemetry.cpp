#include "gpu/telemetry/telemetry.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "gpu/device/catalog.h"
#include "gpu/device/error.h"
#include "gpu/device/xid.h"

namespace gpuyard::telemetry {
namespace {

const Missing kOverdue{MissingReason::timed_out, ""};

constexpr auto kSlowEvery = static_cast<std::uint64_t>(kSlowPeriod / kFastPeriod);
constexpr auto kRareEvery = static_cast<std::uint64_t>(kRarePeriod / kFastPeriod);

}  // namespace

Telemetry::Telemetry(Loop& loop, Reader& reader, HealthPolicy policy)
    : loop_(loop), reader_(reader), health_(std::move(policy)) {
  driver_.why = "the driver has not been read yet";
  auto nothing = std::make_shared<Snapshot>(assemble());
  nothing->generation = 0;
  latest_ = std::move(nothing);
}

void Telemetry::on_fleet(const Fleet& fleet) {
  if (!driver_.initialised) {
    log::info("NVML initialized successfully. Found {} GPU(s)", fleet.devices.size());
  }
  driver_ = {true, "", fleet.driver};
  health_.compare_power(!fleet.own_time);
  roster_.arrive(fleet.devices, loop_.wall());
  list_devices();
  ticks_ = 0;  // so that the next tick reads the slower tiers too
  tick();
}

void Telemetry::restore(const std::vector<KnownBoard>& boards, const std::string& boot_id) {
  roster_.restore(boards);
  for (const KnownBoard& board : boards) {
    health_.restore(board.uuid, board.errors, board.boot_id != boot_id);
  }
  if (driver_.initialised) list_devices();
}

std::vector<KnownBoard> Telemetry::known_boards() const {
  std::vector<KnownBoard> boards = roster_.known(loop_.wall());
  for (KnownBoard& board : boards) board.errors = health_.errors_of(board.uuid);
  return boards;
}

std::vector<DeviceInfo> Telemetry::missing_boards() const {
  std::vector<DeviceInfo> boards = roster_.list();
  std::erase_if(boards, [](const DeviceInfo& info) { return !is_missing(info); });
  return boards;
}

bool Telemetry::take_out(const DeviceId& id) {
  if (!roster_.take_out(id)) return false;
  health_.forget(id);
  if (driver_.initialised) list_devices();
  return true;
}

void Telemetry::list_devices() {
  std::vector<Track> tracks;
  for (const DeviceInfo& info : roster_.list()) {
    // A known GPU keeps its readings, with their age, until there are newer ones.
    Track* known = find(info.id);
    const bool same = known != nullptr && known->info() == info;
    tracks.push_back(same ? std::move(*known) : Track(info));
    if (!same && info.fault) errors_.note(info, *info.fault);
  }
  tracks_ = std::move(tracks);
}

void Telemetry::on_no_driver(const Error& error) {
  const std::string why(init_failure_reason(error));
  if (driver_.why != why) {
    log::warning("NVML initialization failed: {}. GPU features disabled.", why);
  }
  driver_ = {false, why, {}};
  tracks_.clear();
  land();
  publish();
}

void Telemetry::on_host_down(const std::string& why) {
  if (driver_.why != why) log::warning("{}", why);
  driver_.initialised = false;
  driver_.why = why;
  for (Track& track : tracks_) track.forget_question();
  land();
  publish();  // the ticks go on publishing, because the readings age
}

void Telemetry::on_event(const DeviceEvent& event) {
  if (event.device.empty() || !event.xid) return;
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(loop_.now() - event.at);
  xids_.note(event.device, *event.xid, loop_.wall() - age);
  if (*event.xid != kXidContained) return;
  if (event.pid) {
    health_.note_contained(event.device, *event.pid);
  } else {
    const Track* track = find(event.device);
    health_.note_contained(event.device, track != nullptr ? track->sample() : Sample{});
  }
}

void Telemetry::on_echo(const DeviceEvent& event) {
  if (event.xid == kXidContained && event.pid) health_.name_contained(event.device, *event.pid);
}

void Telemetry::tick() {
  ProbeSet due = probes_of(Tier::fast);
  if (ticks_ % kSlowEvery == 0) due = due | probes_of(Tier::slow);
  if (ticks_ % kRareEvery == 0) due = due | probes_of(Tier::rare);
  ++ticks_;
  for (Track& track : tracks_) {
    if (track.unresponsive(loop_.now())) errors_.note(track.info(), kOverdue);
    track.make_due(due);
    pump(track);
  }
  publish_timer_ = loop_.call_after(kTickDeadline, [this] { publish(); });
  tick_timer_ = loop_.call_after(kFastPeriod, [this] { tick(); });
  publish_when_complete();
}

void Telemetry::pump(Track& track) {
  const ProbeSet probes = track.next();
  if (probes.empty()) return;
  const ReadRequest request{next_id_++, track.info().id, probes};
  if (reader_.read(request)) track.asked(request.id, probes, loop_.now());
}

void Telemetry::ask_power(const DeviceId& id) {
  Track* track = find(id);
  if (track == nullptr) return;
  track->make_urgent(kBurstProbes);
  pump(*track);
}

void Telemetry::on_reply(const ReadReply& reply) {
  Track* track = find(reply.device);
  const auto accepted =
      track != nullptr ? track->answered(reply.id, reply.sample, loop_.now()) : std::nullopt;
  if (!accepted) return;
  errors_.note(track->info(), *accepted);
  health_.note(track->info().id, *accepted);
  burst_.on_sample(track->info().id, *accepted);
  pump(*track);
  land_if_complete();
  publish_when_complete();
}

void Telemetry::fresh(ProbeSet probes, FreshDone done) {
  next_.probes = next_.probes | probes;
  next_.callers.push_back(std::move(done));
  if (!flying()) take_off();
}

void Telemetry::take_off() {
  flight_ = std::exchange(next_, {});
  flight_.began = loop_.now();
  landing_timer_ = loop_.call_after(kFreshDeadline, [this] { land(); });
  // Without a GPU to ask, the flight ends at once, but never inside fresh().
  arrival_check_ = loop_.call_at(flight_.began, [this] { land_if_complete(); });
  if (!driver_.initialised) return;
  for (Track& track : tracks_) {
    track.make_urgent(flight_.probes);
    pump(track);
  }
}

void Telemetry::land_if_complete() {
  if (!flying()) return;
  if (!driver_.initialised || has_landed(flight_, tracks_, loop_.now())) land();
}

void Telemetry::land() {
  if (!flying()) return;
  landing_timer_.reset();
  arrival_check_.reset();
  const Flight landed = std::exchange(flight_, {});
  const auto result = std::make_shared<const Snapshot>(only_fresh(assemble(), landed));
  for (const FreshDone& done : landed.callers) done(result);
  if (!flying() && !next_.callers.empty()) take_off();
}

void Telemetry::publish_when_complete() {
  const bool complete =
      std::all_of(tracks_.begin(), tracks_.end(), [](const Track& track) { return track.idle(); });
  if (publish_timer_ && complete) publish();
}

void Telemetry::publish() {
  publish_timer_.reset();
  auto next = std::make_shared<Snapshot>(assemble());
  judge_(*next);
  latest_ = std::move(next);
  told_(latest_);
}

Snapshot Telemetry::assemble() const {
  Snapshot snapshot;
  snapshot.generation = latest_ ? latest_->generation + 1 : 0;
  snapshot.taken = loop_.now();
  snapshot.wall = loop_.wall();
  snapshot.driver = driver_;
  for (const Track& track : tracks_) {
    DeviceState device = track.state(snapshot.taken);
    device.query_errors = errors_.count(track.info().id);
    if (!driver_.initialised) {
      device.condition = DeviceCondition::unresponsive;
      device.why = driver_.why;
    }
    device.contradiction = health_.contradiction(track.info().id);
    device.health = health_.judge(device);
    device.xid_errors = xids_.of(track.info().id);
    snapshot.devices.push_back(std::move(device));
  }
  return snapshot;
}

Track* Telemetry::find(const DeviceId& id) {
  const auto track = std::find_if(tracks_.begin(), tracks_.end(),
                                  [&](const Track& one) { return one.info().id == id; });
  return track != tracks_.end() ? &*track : nullptr;
}

namespace {

const Reading* fresh_reading(const Sample& sample, Metric metric, TimePoint since) {
  const Reading* reading = sample.find(metric);
  return reading != nullptr && reading->taken >= since ? reading : nullptr;
}

bool answered_since(const Track& track, const Flight& flight) {
  bool all = true;
  flight.probes.each([&](Probe probe) {
    for (const Metric metric : row_of(probe).fills) {
      all = all && fresh_reading(track.sample(), metric, flight.began) != nullptr;
    }
  });
  return all;
}

Missing why_not(const DeviceState& device, const Snapshot& snapshot) {
  if (device.info.fault) return *device.info.fault;
  if (!snapshot.driver.initialised) return {MissingReason::failed, snapshot.driver.why};
  if (device.condition == DeviceCondition::unresponsive) {
    return {MissingReason::timed_out, "the driver has stopped responding for this GPU"};
  }
  return {MissingReason::timed_out,
          fmt::format("the driver did not respond within {} ms", to_milliseconds(kFreshDeadline))};
}

}  // namespace

bool has_landed(const Flight& flight, const std::vector<Track>& tracks, TimePoint now) {
  return std::all_of(tracks.begin(), tracks.end(), [&](const Track& track) {
    return !track.readable() || track.unresponsive(now) || answered_since(track, flight);
  });
}

Snapshot only_fresh(Snapshot all, const Flight& flight) {
  for (DeviceState& device : all.devices) {
    const Sample before = std::exchange(
        device.sample, missing_sample(flight.probes, why_not(device, all), all.taken));
    for (const Reading& reading : before.readings()) {
      const bool asked = device.sample.find(reading.metric) != nullptr;
      if (asked && reading.taken >= flight.began) device.sample.set(reading);
    }
    const auto& list = before.processes();
    const bool listed = flight.probes.contains(Probe::processes) && list.has_value();
    if (listed && list->taken >= flight.began) device.sample.set(*list);
  }
  return all;
}

}  // namespace gpuyard::telemetry
