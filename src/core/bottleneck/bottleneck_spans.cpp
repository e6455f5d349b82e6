#include "core/bottleneck/bottleneck_spans.h"

#include <algorithm>
#include <iterator>
#include <ranges>
#include <set>
#include <utility>

namespace gpuyard::bottleneck {

void BottleneckRecorder::on_snapshot(const Snapshot& snapshot) {
  std::set<DeviceId> present;
  for (const DeviceState& device : snapshot.devices) {
    if (!device.bottleneck) continue;
    present.insert(device.info.id);
    update_span(device, snapshot.wall);
  }
  for (auto one = open_spans_.begin(); one != open_spans_.end();) {
    const bool gone = !present.contains(one->first);
    if (gone) end_span(one->second);
    one = gone ? open_spans_.erase(one) : std::next(one);
  }
  if (last_save_at_ == TimePoint{}) last_save_at_ = snapshot.taken;
  if (snapshot.taken - last_save_at_ >= kSaveInterval) {
    last_save_at_ = snapshot.taken;
    for (const auto& [gpu, span] : open_spans_) writer_.add(span);
  }
  writer_.flush();
}

void BottleneckRecorder::update_span(const DeviceState& device, WallTime now) {
  const Bottleneck& found = *device.bottleneck;
  const auto known = open_spans_.find(device.info.id);
  if (known != open_spans_.end()) {
    BottleneckSpan& span = known->second;
    // A clock that was set ends a span as well.
    const bool goes_on = now >= span.last_seen && now - span.last_seen <= kMaxGap;
    if (goes_on) span.last_seen = now;
    const bool same = span.bottleneck.cause == found.cause;
    if (goes_on && same &&
        found.share_percent.value_or(0) >= span.bottleneck.share_percent.value_or(0))
      span.bottleneck = found;
    if (goes_on && (same || now - span.first_seen < kMinSpanDuration)) return;
    end_span(span);
  }
  const BottleneckSpan next{device.info.id, found, now, now, false};
  open_spans_.insert_or_assign(device.info.id, next);
  writer_.add(next);
}

void BottleneckRecorder::end_span(BottleneckSpan& span) {
  span.over = true;
  writer_.add(span);
}

void BottleneckRecorder::flush() {
  for (const auto& [gpu, span] : open_spans_) writer_.add(span);
  writer_.flush_last();
}

std::vector<BottleneckSpan> BottleneckRecorder::open_spans() const {
  const auto spans = open_spans_ | std::views::values;
  return {spans.begin(), spans.end()};
}

const BottleneckSpan* span_at(const std::vector<BottleneckSpan>& spans, const DeviceId& gpu,
                              WallTime at) {
  const auto found = std::ranges::find_if(spans, [&](const BottleneckSpan& span) {
    // An open span goes on between two snapshots.
    const auto beyond = span.over ? std::chrono::seconds(0) : BottleneckRecorder::kMaxGap;
    const bool within = span.first_seen <= at && at < span.last_seen + beyond;
    return span.gpu == gpu && (within || span.first_seen == at);
  });
  return found != spans.end() ? &*found : nullptr;
}

std::map<BottleneckCause, std::chrono::milliseconds> duration_by_cause(
    const std::vector<BottleneckSpan>& spans, const DeviceId& gpu, WallTime from, WallTime until) {
  std::map<BottleneckCause, std::chrono::milliseconds> lengths;
  for (const BottleneckSpan& span : spans) {
    const WallTime begin = std::max(span.first_seen, from);
    const WallTime end = std::min(span.last_seen, until);
    if (span.gpu != gpu || begin >= end) continue;
    lengths[span.bottleneck.cause] += end - begin;
    until = begin;
  }
  return lengths;
}

}  // namespace gpuyard::bottleneck
