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

std::int64_t to_ms(TimePoint when) {
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

void Rings::append(const Snapshot& snapshot) {
  const std::int64_t now_ms = to_ms(snapshot.taken);
  for (const DeviceState& device : snapshot.devices) {
    if (device.info.uuid.empty()) continue;
    append(gpus_[device.info.uuid], device.sample, now_ms);
  }
  if (last_eviction_ms_ == INT64_MIN) last_eviction_ms_ = now_ms;
  if (now_ms - last_eviction_ms_ < kMinuteMs && gpus_.size() <= kMaxGpus) return;
  last_eviction_ms_ = now_ms;
  evict_expired(now_ms);
}

// Readings and series have the same order, so that one pass goes over both.
void Rings::append(Gpu& gpu, const Sample& sample, std::int64_t now_ms) {
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
    if (!series.append(to_ms(reading.taken), *number)) continue;
    gpu.last_append_ms = now_ms;
    grew = grew || series.bytes() != before;
  }
  if (grew) enforce_limit(gpu);
}

void Rings::enforce_limit(Gpu& gpu) const {
  for (gpu.bytes = bytes_of(gpu); gpu.bytes > max_bytes_; gpu.bytes = bytes_of(gpu)) {
    const auto oldest = std::ranges::min_element(gpu.series, {}, [](const Series& series) {
      return series.oldest_block_ms().value_or(INT64_MAX);
    });
    if (!oldest->drop_oldest_block()) return;
  }
}

void Rings::evict_expired(std::int64_t now_ms) {
  for (auto& [uuid, gpu] : gpus_) {
    for (Series& series : gpu.series) series.evict_expired(now_ms);
    std::erase_if(gpu.series, [](const Series& series) { return series.empty(); });
  }
  std::erase_if(gpus_, [](const auto& entry) { return entry.second.series.empty(); });
  while (gpus_.size() > kMaxGpus) {
    gpus_.erase(std::ranges::min_element(
        gpus_, {}, [](const auto& entry) { return entry.second.last_append_ms; }));
  }
}

const Rings::Gpu* Rings::find(const std::string& uuid) const {
  const auto found = gpus_.find(uuid);
  return found != gpus_.end() ? &found->second : nullptr;
}

bool Series::append(std::int64_t taken_ms, std::int64_t value) {
  if (taken_ms <= taken_ms_) return false;
  const bool first = taken_ms_ == INT64_MIN;
  taken_ms_ = taken_ms;
  if (first) first_reading_ms_ = taken_ms;
  const std::int64_t due_ms = first ? taken_ms : stored_ms_ + cadence_ms_;
  const bool on_time = std::abs(taken_ms - due_ms) <= kMaxJitterMs;
  // A point that is kept as of its due time may be later than the next reading.
  stored_ms_ = on_time || first ? due_ms : std::max(taken_ms, stored_ms_ + 1);
  readings_.push({stored_ms_, value});
  const std::int64_t begin_ms = span_begin(stored_ms_, kTenSecondsMs);
  if (open_bucket_.aggregate.count > 0 && open_bucket_.at_ms != begin_ms) {
    ten_second_buckets_.push(open_bucket_);
    open_bucket_.aggregate = {};
  }
  open_bucket_.at_ms = begin_ms;
  open_bucket_.aggregate.add(value);
  return true;
}

void Series::evict_expired(std::int64_t now_ms) {
  readings_.drop_before(now_ms - kReadingRetentionMs);
  ten_second_buckets_.drop_before(now_ms - kTenSecondRetentionMs);
  if (open_bucket_.at_ms < now_ms - kTenSecondRetentionMs) open_bucket_.aggregate = {};
}

// Returns the older of the two rings' first times: mostly that of the tens, which cover a day.
std::optional<std::int64_t> Series::oldest_block_ms() const {
  std::optional<std::int64_t> oldest;
  const auto consider = [&](const auto& ring) {
    if (ring.block_count() == 0) return;
    oldest = std::min(oldest.value_or(INT64_MAX), *ring.first_ms());
  };
  consider(readings_);
  consider(ten_second_buckets_);
  return oldest;
}

bool Series::drop_oldest_block() {
  const auto oldest = oldest_block_ms();
  if (!oldest) return false;
  if (ten_second_buckets_.block_count() > 0 && ten_second_buckets_.first_ms() == oldest)
    return ten_second_buckets_.drop_oldest();
  return readings_.drop_oldest();
}

View<Bucket> Series::ten_second_buckets(std::int64_t from_ms, std::int64_t until_ms) const {
  View<Bucket> view = ten_second_buckets_.view(from_ms, until_ms);
  if (open_bucket_.aggregate.count > 0) view.tail.push_back(open_bucket_);
  return view;
}

}  // namespace gpuyard::history
