#include "core/history/rings.h"

#include <algorithm>
#include <cstdlib>

#include "core/history/query.h"

namespace gpuyard::history {
namespace {

using Key = std::pair<Metric, std::uint16_t>;

Key key_of(const Series& series) {
  return {series.metric(), series.element()};
}

std::int64_t in_ms(TimePoint when) {
  return to_milliseconds(when.time_since_epoch());
}

std::size_t bytes_of(const Rings::Gpu& gpu) {
  std::size_t bytes = 0;
  for (const Series& series : gpu.series) bytes += series.bytes();
  return bytes;
}

}  // namespace

const Series* Rings::Gpu::find(Metric metric, std::uint16_t element) const {
  const Key wanted{metric, element};
  const auto found = std::ranges::lower_bound(series, wanted, {}, key_of);
  return found != series.end() && key_of(*found) == wanted ? &*found : nullptr;
}

void Rings::feed(const Snapshot& snapshot) {
  const std::int64_t now_ms = in_ms(snapshot.taken);
  for (const DeviceState& device : snapshot.devices) {
    if (device.info.uuid.empty()) continue;
    feed(gpus_[device.info.uuid], device.sample, now_ms);
  }
  if (swept_ms_ == INT64_MIN) swept_ms_ = now_ms;
  if (now_ms - swept_ms_ < kMinuteMs && gpus_.size() <= kMaxGpus) return;
  swept_ms_ = now_ms;
  forget(now_ms);
}

// Readings and series have the same order, so that one pass goes over both.
void Rings::feed(Gpu& gpu, const Sample& sample, std::int64_t now_ms) {
  std::size_t at = 0;
  bool grew = false;
  for (const Reading& reading : sample.readings()) {
    const std::int64_t* number = reading.number();
    const std::int64_t cadence_ms = cadence_of(reading.metric);
    if (number == nullptr || cadence_ms == 0) continue;
    const Key key{reading.metric, reading.index};
    while (at < gpu.series.size() && key_of(gpu.series[at]) < key) ++at;
    if (at == gpu.series.size() || key_of(gpu.series[at]) != key) {
      gpu.series.insert(gpu.series.begin() + static_cast<std::ptrdiff_t>(at),
                        Series(reading.metric, reading.index, cadence_ms));
    }
    Series& series = gpu.series[at];
    const std::size_t before = series.bytes();
    if (!series.feed(in_ms(reading.taken), *number)) continue;
    gpu.fed_ms = now_ms;
    grew = grew || series.bytes() != before;
  }
  if (grew) hold_limit(gpu);
}

void Rings::hold_limit(Gpu& gpu) const {
  for (gpu.bytes = bytes_of(gpu); gpu.bytes > max_bytes_; gpu.bytes = bytes_of(gpu)) {
    const auto oldest = std::ranges::min_element(gpu.series, {}, [](const Series& series) {
      return series.oldest_block_ms().value_or(INT64_MAX);
    });
    if (!oldest->drop_oldest_block()) return;
  }
}

void Rings::forget(std::int64_t now_ms) {
  for (auto& [uuid, gpu] : gpus_) {
    for (Series& series : gpu.series) series.forget(now_ms);
    std::erase_if(gpu.series, [](const Series& series) { return series.empty(); });
  }
  std::erase_if(gpus_, [](const auto& entry) { return entry.second.series.empty(); });
  while (gpus_.size() > kMaxGpus) {
    gpus_.erase(
        std::ranges::min_element(gpus_, {}, [](const auto& entry) { return entry.second.fed_ms; }));
  }
}

const Rings::Gpu* Rings::find(const std::string& uuid) const {
  const auto found = gpus_.find(uuid);
  return found != gpus_.end() ? &found->second : nullptr;
}

std::size_t Rings::bytes() const {
  std::size_t bytes = 0;
  for (const auto& [uuid, gpu] : gpus_) bytes += bytes_of(gpu);
  return bytes;
}

bool Series::feed(std::int64_t taken_ms, std::int64_t value) {
  if (taken_ms <= taken_ms_) return false;
  const bool first = taken_ms_ == INT64_MIN;
  taken_ms_ = taken_ms;
  if (first) born_ms_ = taken_ms;
  const std::int64_t due_ms = first ? taken_ms : kept_ms_ + cadence_ms_;
  const bool on_time = std::abs(taken_ms - due_ms) <= kJitterMs;
  // A point that is kept as of its due time may be later than the next reading.
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

// Returns the older of the two rings' first times: mostly that of the tens, which cover a day.
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

View<Bucket> Series::tens(std::int64_t from_ms, std::int64_t until_ms) const {
  View<Bucket> view = tens_.view(from_ms, until_ms);
  if (open_.of.count > 0) view.tail.push_back(open_);
  return view;
}

}  // namespace gpuyard::history
