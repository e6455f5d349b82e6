#include "core/processes/process_spans.h"

#include <algorithm>
#include <set>
#include <utility>

namespace gpuyard::processes {
namespace {

// What only /proc tells. A user's name may come later than the rest.
void learn(Stay& stay, const ProcessMetadata& facts) {
  stay.started_boot_ms = to_milliseconds(facts.started.time_since_epoch());
  stay.started = facts.started_at;
  stay.uid = facts.uid;
  stay.command = facts.command;
  if (facts.user) stay.user = *facts.user;
}

}  // namespace

void ProcessRecorder::on_snapshot(const Snapshot& snapshot, const ProcessDirectory& book,
                                  const LeaseOf& lease_of) {
  for (const DeviceState& device : snapshot.devices) {
    const auto& list = device.sample.processes();
    if (!list || list->processes() == nullptr) continue;
    note(device, *list, snapshot, book, lease_of);
  }
  if (all_put_ == TimePoint{}) all_put_ = snapshot.taken;
  if (snapshot.taken - all_put_ >= kPutEvery) {
    all_put_ = snapshot.taken;
    for (const auto& [key, open] : open_) {
      if (open.written) puts_.add(open.stay);
    }
  }
  puts_.put();
}

void ProcessRecorder::note(const DeviceState& device, const ProcessList& list,
                           const Snapshot& snapshot, const ProcessDirectory& book,
                           const LeaseOf& lease_of) {
  const DeviceId& gpu = device.info.id;
  const auto age =
      std::chrono::duration_cast<std::chrono::milliseconds>(snapshot.taken - list.taken);
  const WallTime wall = snapshot.wall - age;
  const bool newer = std::exchange(listed_[gpu], list.taken) != list.taken;
  std::set<std::uint32_t> there;
  for (const GpuProcess& process : *list.processes()) {
    there.insert(process.pid);
    const auto facts = book.find(process.pid);
    const bool known = open_.contains({gpu, process.pid});
    if (!known && (!newer || open_.size() >= kMostOpen)) continue;
    Open& open = open_[{gpu, process.pid}];
    const bool another =
        known && facts && open.stay.started_boot_ms != 0 &&
        open.stay.started_boot_ms != to_milliseconds((*facts)->started.time_since_epoch());
    if (another) end(open);
    if (!known || another) {
      open = {};
      open.stay = {.gpu = gpu, .pid = process.pid, .boot_id = boot_id_};
      open.stay.lease = lease_of(gpu);
      open.stay.first_seen = wall;
    }
    Stay& stay = open.stay;
    stay.last_seen = wall;
    if (process.memory_bytes) {
      stay.peak_memory_bytes = std::max(stay.peak_memory_bytes.value_or(0), *process.memory_bytes);
    }
    if (!facts) continue;
    learn(stay, **facts);
    if (!std::exchange(open.written, true)) puts_.add(stay);
  }
  if (!newer) return;
  for (auto one = open_.lower_bound({gpu, 0}); one != open_.end();) {
    if (std::get<0>(one->first) != gpu) break;
    if (there.contains(std::get<1>(one->first))) {
      ++one;
      continue;
    }
    end(one->second);
    one = open_.erase(one);
  }
}

void ProcessRecorder::end(Open& open) {
  Stay& stay = open.stay;
  stay.over = true;
  // Nobody knows its start, and its number may be given anew.
  if (stay.started_boot_ms == 0) stay.started_boot_ms = -to_unix_ms(stay.first_seen);
  puts_.add(stay);
}

void ProcessRecorder::put_away() {
  for (const auto& [key, open] : open_) puts_.add(open.stay);
  puts_.put_last();
}

std::vector<Stay> ProcessRecorder::here() const {
  std::vector<Stay> stays;
  for (const auto& [key, open] : open_) stays.push_back(open.stay);
  return stays;
}

}  // namespace gpuyard::processes
