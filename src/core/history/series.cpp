#include "history/series.h"

#include <cstdlib>

namespace gpuyard::history {

bool Series::feed(std::int64_t taken_ms, std::int64_t value) {
  if (taken_ms <= taken_ms_) return false;
  const bool first = taken_ms_ == INT64_MIN;
  taken_ms_ = taken_ms;
  if (first) born_ms_ = taken_ms;
  const std::int64_t due_ms = first ? taken_ms : kept_ms_ + cadence_ms_;
  const bool on_time = std::abs(taken_ms - due_ms) <= kJitterMs;
  // A point that was kept as of its due time may be later than the next was taken.
  kept_ms_ = on_time || first ? due_ms : std::max(taken_ms, kept_ms_ + 1);
  readings_.push({kept_ms_, value});
  const std::int64_t begin_ms = span_begin(kept_ms_, kTensMs);
  if (open_.of.count > 0 && open_.at_ms != begin_ms) {
    tens_.push(open_);
    open_.of = {};
  }
  open_.at_ms = begin_ms;
  open_.of.add(value);
  return true;
}

void Series::forget(std::int64_t now_ms) {
  readings_.drop_before(now_ms - kReadingsKeptMs);
  tens_.drop_before(now_ms - kTensKeptMs);
  if (open_.at_ms < now_ms - kTensKeptMs) open_.of = {};
}

// The older of the two fronts; of a day's tens and an hour's readings mostly the tens.
std::optional<std::int64_t> Series::oldest_block_ms() const {
  std::optional<std::int64_t> oldest;
  const auto consider = [&](const auto& ring) {
    if (ring.block_count() == 0) return;
    oldest = std::min(oldest.value_or(INT64_MAX), *ring.first_ms());
  };
  consider(readings_);
  consider(tens_);
  return oldest;
}

bool Series::drop_oldest_block() {
  const auto oldest = oldest_block_ms();
  if (!oldest) return false;
  if (tens_.block_count() > 0 && tens_.first_ms() == oldest) return tens_.drop_oldest();
  return readings_.drop_oldest();
}

View<Bucket> Series::tens(std::int64_t from_ms) const {
  View<Bucket> view = tens_.view(from_ms);
  if (open_.of.count > 0) view.tail.push_back(open_);
  return view;
}

}  // namespace gpuyard::history
