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
    note(device, snapshot.wall);
  }
  for (auto one = on_.begin(); one != on_.end();) {
    const bool gone = !there.contains(one->first);
    if (gone) end(one->second);
    one = gone ? on_.erase(one) : std::next(one);
  }
  if (all_put_ == TimePoint{}) all_put_ = snapshot.taken;
  if (snapshot.taken - all_put_ >= kPutEvery) {
    all_put_ = snapshot.taken;
    for (const auto& [gpu, spell] : on_) puts_.add(spell);
  }
  puts_.put();
}

void BottleneckRecorder::note(const DeviceState& device, WallTime now) {
  const Bottleneck& found = *device.bottleneck;
  const auto known = on_.find(device.info.id);
  if (known != on_.end()) {
    Spell& spell = known->second;
    // A clock that was set ends a spell as well.
    const bool goes_on = now >= spell.last_seen && now - spell.last_seen <= kLongestGap;
    if (goes_on) spell.last_seen = now;
    const bool same = spell.what.cause == found.cause;
    if (goes_on && same && found.share_percent.value_or(0) >= spell.what.share_percent.value_or(0))
      spell.what = found;
    if (goes_on && (same || now - spell.first_seen < kShortest)) return;
    end(spell);
  }
  const Spell next{device.info.id, found, now, now, false};
  on_.insert_or_assign(device.info.id, next);
  puts_.add(next);
}

void BottleneckRecorder::end(Spell& spell) {
  spell.over = true;
  puts_.add(spell);
}

void BottleneckRecorder::put_away() {
  for (const auto& [gpu, spell] : on_) puts_.add(spell);
  puts_.put_last();
}

std::vector<Spell> BottleneckRecorder::here() const {
  const auto spells = on_ | std::views::values;
  return {spells.begin(), spells.end()};
}

const Spell* spell_at(const std::vector<Spell>& spells, const DeviceId& gpu, WallTime at) {
  const auto found = std::ranges::find_if(spells, [&](const Spell& spell) {
    // What is on is still so between two snapshots.
    const auto beyond = spell.over ? std::chrono::seconds(0) : BottleneckRecorder::kLongestGap;
    const bool within = spell.first_seen <= at && at < spell.last_seen + beyond;
    return spell.gpu == gpu && (within || spell.first_seen == at);
  });
  return found != spells.end() ? &*found : nullptr;
}

std::map<BottleneckCause, std::chrono::milliseconds> lengths_of(const std::vector<Spell>& spells,
                                                                const DeviceId& gpu, WallTime from,
                                                                WallTime until) {
  std::map<BottleneckCause, std::chrono::milliseconds> lengths;
  for (const Spell& spell : spells) {
    const WallTime begin = std::max(spell.first_seen, from);
    const WallTime end = std::min(spell.last_seen, until);
    if (spell.gpu != gpu || begin >= end) continue;
    lengths[spell.what.cause] += end - begin;
    until = begin;
  }
  return lengths;
}

}  // namespace gpuyard::bottleneck
