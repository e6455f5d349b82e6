#include "gpu/telemetry/idle_suspend.h"

#include <algorithm>
#include <variant>

namespace gpuyard::telemetry {
namespace {

// Nothing where the board has no such reading; false also where it is unknown.
std::optional<bool> is_unused(const Sample& sample) {
  if (const auto percent = sample.value(Metric::utilization_gpu)) return *percent == 0;
  return sample.is_unsupported(Metric::utilization_gpu) ? std::nullopt : std::optional(false);
}

// Programs that only draw do not keep a GPU awake. Nothing and false as above.
std::optional<bool> is_without_work(const Sample& sample) {
  const auto& list = sample.processes();
  if (!list) return false;
  if (const auto* const processes = list->processes()) {
    return std::ranges::all_of(
        *processes, [](const GpuProcess& one) { return one.kind == ProcessKind::graphics; });
  }
  const auto* const missing = std::get_if<Missing>(&list->value);
  if (missing != nullptr && missing->reason == MissingReason::not_supported) return std::nullopt;
  return false;
}

}  // namespace

bool has_no_work(const Sample& sample) {
  const auto unused = is_unused(sample);
  const auto without_work = is_without_work(sample);
  return (unused || without_work) && unused.value_or(true) && without_work.value_or(true);
}

void IdleSuspend::update(const Facts& facts, TimePoint now) {
  if (!facts.suspend_delay) {
    *this = {};
    return;
  }
  const auto asleep_since = state_ ? state_->asleep_since : std::nullopt;
  state_.emplace();
  if (facts.suspended) {
    state_->asleep_since = asleep_since.value_or(now);
    state_->polling_paused = !facts.needed;
    idle_since_.reset();
    paused_until_.reset();
    return;
  }
  // The readings may be older than the program that has resumed the GPU.
  if (facts.needed || !facts.idle || asleep_since) {
    idle_since_.reset();
    paused_until_.reset();
    return;
  }
  if (!idle_since_) idle_since_ = now;
  if (now - *idle_since_ < kIdleBeforePause) return;
  if (!paused_until_) paused_until_ = now + *facts.suspend_delay + kPauseMargin;
  state_->polling_paused = now < *paused_until_;
  if (!state_->polling_paused) paused_until_.reset();
}

}  // namespace gpuyard::telemetry
