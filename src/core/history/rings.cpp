#include "history/rings.h"

#include <algorithm>

#include "history/remembered.h"

namespace gpuyard::history {
namespace {

using Key = std::pair<Metric, std::uint16_t>;

Key key_of(const Series& series) {
  return {series.metric(), series.element()};
}

std::int64_t in_ms(TimePoint when) {
  return to_milliseconds(when.time_since_epoch());
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

// Readings and series have the same order: one pass over both.
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
  const auto total = [&] {
    std::size_t bytes = 0;
    for (const Series& series : gpu.series) bytes += series.bytes();
    return bytes;
  };
  for (gpu.bytes = total(); gpu.bytes > max_bytes_; gpu.bytes = total()) {
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
  for (const auto& [uuid, gpu] : gpus_) {
    for (const Series& series : gpu.series) bytes += series.bytes();
  }
  return bytes;
}

}  // namespace gpuyard::history
