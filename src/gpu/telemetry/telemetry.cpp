#include "gpu/telemetry/telemetry.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "gpu/device/error.h"
#include "gpu/device/xid.h"

namespace gpuyard::telemetry {
namespace {

const Missing kOverdue{MissingReason::timed_out, ""};

Missing missing_reason(const DeviceState& device, const Snapshot& snapshot) {
  if (device.info.fault) return *device.info.fault;
  if (!snapshot.driver.initialised) return {MissingReason::failed, snapshot.driver.why};
  if (device.condition == DeviceCondition::unresponsive) {
    return {MissingReason::timed_out, "the driver has stopped responding for this GPU"};
  }
  return {MissingReason::timed_out, fmt::format("the driver did not respond within {} ms",
                                                to_milliseconds(kFreshReadTimeout))};
}

bool all_asleep(const Snapshot& snapshot) {
  return snapshot.driver.initialised && !snapshot.devices.empty() &&
         std::ranges::all_of(snapshot.devices, [](const DeviceState& device) {
           return is_polling_paused(device) && asleep_since(device);
         });
}

}  // namespace

Telemetry::Telemetry(Loop& loop, ReadRequester& requester, HealthPolicy policy)
    : loop_(loop), requester_(requester), health_(std::move(policy)) {
  driver_.why = "the driver has not been read yet";
  auto nothing = std::make_shared<Snapshot>(assemble());
  nothing->generation = 0;
  latest_ = std::move(nothing);
}

void Telemetry::on_inventory(const Inventory& inventory) {
  if (!driver_.initialised) {
    log::info("NVML initialized successfully. Found {} GPU(s)", inventory.devices.size());
  }
  driver_ = {true, "", inventory.driver};
  health_.set_power_comparison(!inventory.own_time);
  roster_.update(inventory.devices, loop_.wall());
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
  std::vector<KnownBoard> boards = roster_.known_boards(loop_.wall());
  for (KnownBoard& board : boards) board.errors = health_.errors_of(board.uuid);
  return boards;
}

std::vector<DeviceInfo> Telemetry::missing_boards() const {
  std::vector<DeviceInfo> boards = roster_.list();
  std::erase_if(boards, [](const DeviceInfo& info) { return !is_missing(info); });
  return boards;
}

bool Telemetry::remove_board(const DeviceId& id) {
  if (!roster_.remove_missing(id)) return false;
  health_.remove(id);
  if (driver_.initialised) list_devices();
  return true;
}

void Telemetry::list_devices() {
  std::vector<PollState> poll_states;
  for (const DeviceInfo& info : roster_.list()) {
    // A known GPU keeps its readings, with their age, until there are newer ones.
    PollState* known = find(info.id);
    const bool same = known != nullptr && known->info() == info;
    poll_states.push_back(same ? std::move(*known) : PollState(info));
    if (!same && info.fault) errors_.record(info, *info.fault);
  }
  poll_states_ = std::move(poll_states);
}

void Telemetry::on_no_driver(const Error& error) {
  const std::string why(init_failure_reason(error));
  if (driver_.why != why) {
    log::warning("NVML initialization failed: {}. GPU features disabled.", why);
  }
  driver_ = {false, why, {}};
  poll_states_.clear();
  fresh_reads_.finish();
  publish();
}

void Telemetry::on_host_down(const std::string& why) {
  if (driver_.why != why) log::warning("{}", why);
  driver_.initialised = false;
  driver_.why = why;
  for (PollState& poll_state : poll_states_) poll_state.drop_query();
  fresh_reads_.finish();
  publish();  // the ticks go on publishing, because the readings age
}

void Telemetry::on_event(const DeviceEvent& event) {
  if (event.device.empty() || !event.xid) return;
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(loop_.now() - event.at);
  xids_.record(event.device, *event.xid, loop_.wall() - age);
  if (*event.xid != kXidContained) return;
  if (event.pid) {
    health_.record_contained(event.device, *event.pid);
  } else {
    const PollState* poll_state = find(event.device);
    health_.record_contained(event.device, poll_state != nullptr ? poll_state->sample() : Sample{});
  }
}

void Telemetry::on_duplicate_event(const DeviceEvent& event) {
  if (event.xid == kXidContained && event.pid) health_.identify_contained(event.device, *event.pid);
}

bool Telemetry::is_due(Duration period) const {
  const auto ticks = static_cast<std::uint64_t>(std::max<std::int64_t>(period / interval_, 1));
  return ticks_ % ticks == 0;
}

void Telemetry::tick() {
  ProbeSet due = probes_of(Tier::fast);
  if (is_due(kSlowInterval)) due = due | probes_of(Tier::slow);
  if (is_due(kRareInterval)) due = due | probes_of(Tier::rare);
  suspend_monitor_.update(poll_states_, is_due(kRareInterval), loop_.now());
  ++ticks_;
  std::vector<PollState*> all;
  all.reserve(poll_states_.size());
  for (PollState& poll_state : poll_states_) {
    if (poll_state.is_unresponsive(loop_.now())) errors_.record(poll_state.info(), kOverdue);
    poll_state.make_due(due);
    all.push_back(&poll_state);
  }
  send_next_queries(all);
  if (!can_skip_snapshot()) {
    publish_timer_ = loop_.call_after(kPublishTimeout, [this] { publish(); });
  }
  tick_timer_ = loop_.call_after(interval_, [this] { tick(); });
  publish_if_complete();
}

// True while every GPU stays asleep and the last snapshot is recent: a new one would differ in its
// time only, and its consumers would wake the CPU for nothing.
bool Telemetry::can_skip_snapshot() const {
  const Duration age = loop_.now() - latest_->taken;
  if (!all_asleep(*latest_) || latest_->driver != driver_) return false;
  if (age + interval_ / 2 >= latest_->interval) return false;  // it is due with this tick
  return std::ranges::equal(
      poll_states_, latest_->devices, [](const PollState& now, const DeviceState& before) {
        return now.is_idle() && now.runtime_suspend() == before.runtime_suspend;
      });
}

// In one message, which wakes the driver-host once.
void Telemetry::send_next_queries(const std::vector<PollState*>& poll_states) {
  std::vector<ReadRequest> requests;
  std::vector<PollState*> queried;
  requests.reserve(poll_states.size());
  queried.reserve(poll_states.size());
  for (PollState* const poll_state : poll_states) {
    const ProbeSet probes = poll_state->next_probes();
    if (probes.empty()) continue;
    requests.push_back({next_id_++, poll_state->info().id, probes});
    queried.push_back(poll_state);
  }
  if (requests.empty() || !requester_.read(requests)) return;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    queried[i]->begin_query(requests[i].id, requests[i].probes, loop_.now());
  }
}

void Telemetry::request_power(const DeviceId& id) {
  PollState* poll_state = find(id);
  if (poll_state == nullptr) return;
  poll_state->make_urgent(kPowerProbes);
  send_next_queries({poll_state});
}

void Telemetry::on_replies(const std::vector<ReadReply>& replies) {
  std::vector<PollState*> answered;
  answered.reserve(replies.size());
  for (const ReadReply& reply : replies) {
    PollState* const poll_state = find(reply.device);
    const auto accepted = poll_state != nullptr
                              ? poll_state->finish_query(reply.id, reply.sample, loop_.now())
                              : std::nullopt;
    if (!accepted) continue;
    errors_.record(poll_state->info(), *accepted);
    health_.update(poll_state->info().id, *accepted);
    power_sampler_.on_sample(poll_state->info().id, *accepted);
    answered.push_back(poll_state);
  }
  if (answered.empty()) return;
  send_next_queries(answered);
  finish_fresh_if_complete();
  publish_if_complete();
}

void Telemetry::read_fresh(ProbeSet probes, OnFreshRead on_done) {
  fresh_reads_.join({.probes = probes, .every_gpu = true, .callers = {std::move(on_done)}});
}

void Telemetry::read_fresh(ProbeSet probes, const std::vector<DeviceId>& gpus,
                           OnFreshRead on_done) {
  fresh_reads_.join(
      {.probes = probes, .gpus = {gpus.begin(), gpus.end()}, .callers = {std::move(on_done)}});
}

void Telemetry::query_fresh(const FreshRead& fresh_read) {
  std::vector<PollState*> covered;
  covered.reserve(poll_states_.size());
  for (PollState& poll_state : poll_states_) {
    if (!driver_.initialised || !is_covered(poll_state, fresh_read)) continue;
    poll_state.make_urgent(fresh_read.probes);
    covered.push_back(&poll_state);
  }
  send_next_queries(covered);
  finish_fresh_if_complete();  // without a GPU to query
}

void Telemetry::finish_fresh_if_complete() {
  if (!driver_.initialised) return fresh_reads_.finish();
  fresh_reads_.finish_if_complete(poll_states_);
}

void Telemetry::publish_if_complete() {
  const bool complete =
      std::all_of(poll_states_.begin(), poll_states_.end(),
                  [](const PollState& poll_state) { return poll_state.is_idle(); });
  if (publish_timer_ && complete) publish();
}

void Telemetry::publish() {
  publish_timer_.reset();
  auto next = std::make_shared<Snapshot>(assemble());
  annotator_(*next);
  latest_ = std::move(next);
  listener_(latest_);
}

Snapshot Telemetry::begin_snapshot() const {
  Snapshot snapshot;
  snapshot.generation = latest_ ? latest_->generation + 1 : 0;
  snapshot.taken = loop_.now();
  snapshot.wall = loop_.wall();
  snapshot.driver = driver_;
  snapshot.interval = interval_;
  snapshot.devices.reserve(poll_states_.size());
  return snapshot;
}

Snapshot Telemetry::assemble() const {
  Snapshot snapshot = begin_snapshot();
  for (const PollState& poll_state : poll_states_) {
    snapshot.devices.push_back(poll_state.state(snapshot.taken));
    complete(snapshot.devices.back());
    snapshot.devices.back().health = health_.evaluate_health(snapshot.devices.back());
  }
  if (all_asleep(snapshot)) snapshot.interval = std::max(interval_, kAsleepInterval);
  return snapshot;
}

// Only the fresh read's GPUs and rows: those read since it began, the others missing.
Snapshot Telemetry::assemble(const FreshRead& fresh_read) const {
  Snapshot snapshot = begin_snapshot();
  for (const PollState& poll_state : poll_states_) {
    if (!is_covered(poll_state, fresh_read)) continue;
    snapshot.devices.push_back(
        poll_state.state(snapshot.taken, fresh_part(poll_state.sample(), fresh_read)));
    DeviceState& device = snapshot.devices.back();
    complete(device);
    device.sample.fill_gaps(fresh_read.probes, missing_reason(device, snapshot), snapshot.taken);
  }
  return snapshot;
}

// Adds what is known of the GPU beside its readings and the verdict on them.
void Telemetry::complete(DeviceState& device) const {
  const DeviceId& id = device.info.id;
  device.query_errors = errors_.count(id);
  if (!driver_.initialised) {
    device.condition = DeviceCondition::unresponsive;
    device.why = driver_.why;
  }
  device.contradiction = health_.contradiction(id);
  device.xid_errors = xids_.counts_of(id);
}

PollState* Telemetry::find(const DeviceId& id) {
  const auto poll_state = std::find_if(poll_states_.begin(), poll_states_.end(),
                                       [&](const PollState& one) { return one.info().id == id; });
  return poll_state != poll_states_.end() ? &*poll_state : nullptr;
}

}  // namespace gpuyard::telemetry
