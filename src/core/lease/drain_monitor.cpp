#include "core/lease/drain_monitor.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "core/lease/leftover.h"

namespace gpuyard::lease {
namespace {

constexpr std::string_view kLeftoverSeparator = "; still: ";

// Returns an administrator's reason, without the text of the leftover that follows it.
std::string reason_of(const Lease& lease) {
  return lease.end_reason == EndReason::forced
             ? lease.detail.substr(0, lease.detail.find(kLeftoverSeparator))
             : "";
}

// Polls become rarer the longer a drain lasts.
Duration next_poll_delay(Duration draining) {
  return draining < std::chrono::seconds(5) ? DrainMonitor::kPollInterval
                                            : 4 * DrainMonitor::kPollInterval;
}

}  // namespace

void DrainMonitor::start() {
  draining_since_ = loop_.now();
  poll();
}

void DrainMonitor::clear() {
  with_leftover_.clear();
  is_polling_ = false;
  while (!signals_.empty()) drop_signals(std::string(signals_.begin()->first), false);
}

void DrainMonitor::on_drain_begun() {
  draining_since_ = loop_.now();
  schedule_poll(loop_.now() + kFirstPollDelay);
}

void DrainMonitor::remove(const std::string& id) {
  drop_signals(id, true);
  with_leftover_.erase(id);
}

void DrainMonitor::signal(const Lease& lease, int number, std::optional<std::uint32_t> only_uid,
                          const OnSignal& on_signal) {
  auto& signals = signals_[lease.id];
  auto same = std::ranges::find_if(signals, [&](const SignalPtr& one) {
    return one->number == number && one->only_uid == only_uid;
  });
  if (same == signals.end()) {
    same = signals.insert(signals.end(), std::make_shared<Signal>(Signal{number, only_uid}));
  }
  const SignalPtr& signal = *same;
  signal->waiters.push_back(on_signal);
  if (signal->waiters.size() == 1) {
    signal->timeout_timer =
        loop_.call_after(kSignalTimeout, [this, id = lease.id, weak = std::weak_ptr(signal)] {
          if (const auto late = weak.lock()) answer_signal(id, late, {}, false);
        });
  }
  poll();
}

// A process that still uses the GPUs is unleased from now on. It has to be known before the GPUs
// are granted again.
void DrainMonitor::force(const Caller& caller, const Lease& lease, const std::string& reason,
                         const OnLease& on_lease) {
  log::warning("lease {} ended by {} while still draining ({}): {}", lease.id, caller.name(),
               lease.detail, reason);
  observer_.observe({}, lease.gpus, true,
                    lifetime_.guard([this, caller, id = lease.id, reason,
                                     on_lease](const Observation& observation) {
                      if (auto why = readiness_.change_error())
                        return refuse(loop_, *why, on_lease);
                      updater_.update_unleased(observation);
                      const Lease* still = store_.find_latest(id);
                      if (still && still->state == LeaseState::draining) {
                        transitions_.end(*still, EndReason::forced, reason);
                      }
                      store_.answer_when_committed(id, on_lease);
                    }));
}

void DrainMonitor::schedule_poll(TimePoint when) {
  if (timer_ && poll_at_ <= when) return;
  poll_at_ = when;
  timer_ = loop_.call_at(when, [this] { poll(); });
}

void DrainMonitor::poll() {
  timer_.reset();
  repeat_poll_ = is_polling_;
  if (!readiness_.is_open() || is_polling_) return;
  auto draining = live_.observed_leases(true);
  if (draining.empty()) return;
  is_polling_ = true;
  std::vector<DeviceId> gpus;
  for (const ObservedLease& lease : draining) {
    gpus.insert(gpus.end(), lease.gpus.begin(), lease.gpus.end());
  }
  observer_.observe(
      std::move(draining), std::move(gpus), true,
      lifetime_.guard([this, generation = readiness_.generation()](const Observation& observation) {
        if (readiness_.generation() == generation) on_observed(observation);
      }));
}

void DrainMonitor::on_observed(const Observation& observation) {
  is_polling_ = false;
  updater_.update_unleased(observation);  // so that no GPU in unleased use is granted next
  for (const auto& [id, alive] : observation.alive_by_lease) check(id, observation);
  const Duration wait =
      repeat_poll_ ? Duration::zero() : next_poll_delay(loop_.now() - draining_since_);
  schedule_poll(loop_.now() + wait);
}

void DrainMonitor::check(const std::string& id, const Observation& observation) {
  const Lease* lease = store_.find_latest(id);
  if (!lease || lease->state != LeaseState::draining) return;
  live_.record_alive(id, observation);
  auto leftover = find_leftover(*lease, observation, gpus_);
  if (auto other_leftover = leftover || !check_ ? std::nullopt : check_(*lease)) {
    leftover = Leftover{*std::move(other_leftover)};
  }
  const std::string reason = reason_of(*lease);
  if (!leftover)
    return transitions_.end(*lease, lease->end_reason.value_or(EndReason::released), reason);
  send_signals(*lease, observation);
  const std::string detail =
      reason.empty() ? leftover->text : reason + std::string(kLeftoverSeparator) + leftover->text;
  if (leftover->is_observed) {
    with_leftover_.insert(id);
  } else {
    with_leftover_.erase(id);
  }
  if (lease->detail == detail) return;
  Lease updated = *lease;
  updated.detail = detail;
  store_.stage(updated);
}

void DrainMonitor::send_signals(const Lease& lease, const Observation& observation) {
  const auto found = signals_.extract(lease.id);
  if (found.empty()) return;
  for (const SignalPtr& signal : found.mapped()) {
    observer_.signal(
        remaining_processes(lease, observation), signal->number, signal->only_uid,
        lifetime_.guard([this, id = lease.id, signal](const std::vector<SignalFailure>& failures) {
          answer_signal(id, signal, failures, true);
        }));
  }
}

void DrainMonitor::answer_signal(const std::string& id, const SignalPtr& signal,
                                 const std::vector<SignalFailure>& failures, bool checked) {
  signal->timeout_timer.reset();
  const auto waiters = std::exchange(signal->waiters, {});
  if (waiters.empty()) return;
  store_.answer_when_committed(id, [waiters, failures, checked](const Result<Lease>& lease) {
    for (const OnSignal& on_signal : waiters) {
      if (!lease) {
        on_signal(lease.error());
      } else {
        on_signal(SignalResult{*lease, failures, checked});
      }
    }
  });
}

// `checked`: the lease has no process left.
void DrainMonitor::drop_signals(const std::string& id, bool checked) {
  const auto found = signals_.extract(id);
  if (found.empty()) return;
  for (const SignalPtr& signal : found.mapped()) answer_signal(id, signal, {}, checked);
}

}  // namespace gpuyard::lease
