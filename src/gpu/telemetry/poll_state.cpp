#include "gpu/telemetry/poll_state.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "gpu/device/catalog.h"
#include "gpu/device/fitness.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::telemetry {
namespace {

ProbeSet intersection(ProbeSet a, ProbeSet b) {
  return a - (a - b);
}

ProbeSet first_of(ProbeSet probes) {
  ProbeSet first;
  probes.each([&](Probe probe) {
    if (first.empty()) first = ProbeSet{probe};
  });
  return first;
}

const Missing kUnreported{MissingReason::failed, "not reported by the driver-host"};

// True for a value of the row's kind at an index that can exist.
bool is_well_formed(const Reading& reading) {
  const MetricRow& row = row_of(reading.metric);
  if (reading.index >= extent_of(row.dimension)) return false;
  if (reading.missing() != nullptr) return true;
  return (reading.text() != nullptr) == (row.kind == MetricKind::text);
}

Sample requested_part(const Sample& reply, ProbeSet probes) {
  Sample part;
  part.reserve(reply.readings().size());
  for (const Reading& reading : reply.readings()) {
    const auto probe = row_of(reading.metric).probe;
    if (probe && probes.contains(*probe) && is_well_formed(reading)) part.set(reading);
  }
  if (probes.contains(Probe::processes) && reply.processes()) part.set(*reply.processes());
  return part;
}

}  // namespace

ProbeSet PollState::next_probes() const {
  if (pending_query_ || !is_readable()) return {};
  if (!urgent_.empty()) return urgent_;
  if (suspend_.pauses_polling()) return {};
  const ProbeSet fast = intersection(due_, probes_of(Tier::fast));
  return fast.empty() ? first_of(due_) : fast;
}

void PollState::begin_query(std::uint64_t id, ProbeSet probes, TimePoint now) {
  pending_query_ = PendingQuery{id, probes, now, suspend_.is_asleep()};
  if (!vitals_at_) vitals_at_ = now;
  urgent_ = urgent_ - probes;
  due_ = due_ - probes;
}

std::optional<Sample> PollState::finish_query(std::uint64_t id, const Sample& reply,
                                              TimePoint now) {
  if (!pending_query_ || pending_query_->id != id) return std::nullopt;
  const PendingQuery query = *std::exchange(pending_query_, std::nullopt);
  Sample accepted = requested_part(reply, query.probes);
  accepted.clamp_times(query.sent_at, now);
  accepted.fill_gaps(query.probes, kUnreported, now);
  if (!is_inconclusive(accepted)) update_presence(find_loss(accepted));
  update_vitals(accepted);
  sample_.merge(accepted);
  is_read_ = is_read_ || next_probes().empty();
  return accepted;
}

void PollState::update_presence(const Missing* why_gone) {
  // Readings from before a loss or a recovery say nothing about the present.
  if (loss_.has_value() != (why_gone != nullptr)) {
    due_ = due_ | probes_of(Tier::slow) | probes_of(Tier::rare);
  }
  loss_ = why_gone != nullptr ? std::optional(*why_gone) : std::nullopt;
}

void PollState::update_vitals(const Sample& accepted) {
  for (const Metric metric : kVitals) {
    const Reading* const reading = accepted.find(metric);
    if (reading != nullptr && reading->number() != nullptr) {
      vitals_at_ = std::max(vitals_at_.value_or(reading->taken), reading->taken);
    }
  }
}

bool PollState::is_unresponsive(TimePoint now) const {
  if (!pending_query_) return false;
  const Duration timeout = pending_query_->wakes ? kWakeTimeout : kUnresponsiveTimeout;
  return now - pending_query_->sent_at >= timeout;
}

void PollState::update_suspend(std::optional<Duration> suspend_delay, bool suspended, bool needed,
                               TimePoint now) {
  const bool idle = suspend_delay && !loss_ && is_readable() && has_no_work(sample_);
  suspend_.update({suspend_delay, suspended, needed || !is_read_, idle}, now);
}

DeviceState PollState::state(TimePoint now, Sample shown) const {
  DeviceState state{info_, DeviceCondition::responsive, "", std::move(shown), 0};
  state.vitals_at = vitals_at_;
  state.runtime_suspend = suspend_.state();
  const auto& gone = info_.fault ? info_.fault : loss_;
  if (is_unresponsive(now)) {
    state.condition = DeviceCondition::unresponsive;
    state.why = fmt::format("the driver has not responded for {:.1f} s; showing the last readings",
                            std::chrono::duration<double>(now - pending_query_->sent_at).count());
  } else if (gone) {
    state.condition = DeviceCondition::unavailable;
    state.why = describe(*gone);
  } else if (vitals_at_ && now - *vitals_at_ >= kSickTimeout) {
    const Missing* const why = unreadable_reason(sample_);
    if (why == nullptr) return state;
    state.condition = DeviceCondition::unavailable;
    state.why = fmt::format("all of its readings fail: {}", describe(*why));
  }
  return state;
}

}  // namespace gpuyard::telemetry
