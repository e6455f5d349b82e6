#include "core/bottleneck/bottleneck_spans.h"

#include <algorithm>
#include <iterator>
#include <ranges>
#include <set>
#include <utility>

namespace gpuyard::bottleneck {

void BottleneckRecorder::on_snapshot(const Snapshot& snapshot) {
  std::set<DeviceId> there;
  for (const DeviceState& device : snapshot.devices) {
    if (!device.bottleneck) continue;
    there.insert(device.info.id);
    update_span(device, snapshot.wall);
  }
  for (auto one = open_spans_.begin(); one != open_spans_.end();) {
    const bool gone = !there.contains(one->first);
    if (gone) end_span(one->second);
    one = gone ? open_spans_.erase(one) : std::next(one);
  }
  if (last_save_at_ == TimePoint{}) last_save_at_ = snapshot.taken;
  if (snapshot.taken - last_save_at_ >= kSaveInterval) {
    last_save_at_ = snapshot.taken;
    for (const auto& [gpu, spell] : open_spans_) writer_.add(spell);
  }
  writer_.flush();
}

void BottleneckRecorder::update_span(const DeviceState& device, WallTime now) {
  const Bottleneck& found = *device.bottleneck;
  const auto known = open_spans_.find(device.info.id);
  if (known != open_spans_.end()) {
    BottleneckSpan& spell = known->second;
    // A clock that was set ends a spell as well.
    const bool goes_on = now >= spell.last_seen && now - spell.last_seen <= kMaxGap;
    if (goes_on) spell.last_seen = now;
    const bool same = spell.bottleneck.cause == found.cause;
    if (goes_on && same &&
        found.share_percent.value_or(0) >= spell.bottleneck.share_percent.value_or(0))
      spell.bottleneck = found;
    if (goes_on && (same || now - spell.first_seen < kMinSpanDuration)) return;
    end_span(spell);
  }
  const BottleneckSpan next{device.info.id, found, now, now, false};
  open_spans_.insert_or_assign(device.info.id, next);
  writer_.add(next);
}

void BottleneckRecorder::end_span(BottleneckSpan& spell) {
  spell.over = true;
  writer_.add(spell);
}

void BottleneckRecorder::flush() {
  for (const auto& [gpu, spell] : open_spans_) writer_.add(spell);
  writer_.flush_last();
}

std::vector<BottleneckSpan> BottleneckRecorder::open_spans() const {
  const auto spells = open_spans_ | std::views::values;
  return {spells.begin(), spells.end()};
}

const BottleneckSpan* span_at(const std::vector<BottleneckSpan>& spells, const DeviceId& gpu,
                              WallTime at) {
  const auto found = std::ranges::find_if(spells, [&](const BottleneckSpan& spell) {
    // What is on is still so between two snapshots.
    const auto beyond = spell.over ? std::chrono::seconds(0) : BottleneckRecorder::kMaxGap;
    const bool within = spell.first_seen <= at && at < spell.last_seen + beyond;
    return spell.gpu == gpu && (within || spell.first_seen == at);
  });
  return found != spells.end() ? &*found : nullptr;
}

std::map<BottleneckCause, std::chrono::milliseconds> duration_by_cause(
    const std::vector<BottleneckSpan>& spells, const DeviceId& gpu, WallTime from, WallTime until) {
  std::map<BottleneckCause, std::chrono::milliseconds> lengths;
  for (const BottleneckSpan& spell : spells) {
    const WallTime begin = std::max(spell.first_seen, from);
    const WallTime end = std::min(spell.last_seen, until);
    if (spell.gpu != gpu || begin >= end) continue;
    lengths[spell.bottleneck.cause] += end - begin;
    until = begin;
  }
  return lengths;
}

}  // namespace gpuyard::bottleneck
