#include "core/processes/process_spans.h"

#include <algorithm>
#include <set>
#include <utility>

namespace gpuyard::processes {
namespace {

// The facts that only /proc has. A user's name may come later than the rest.
void apply_facts(ProcessSpan& span, const ProcessMetadata& facts) {
  span.started_boot_ms = to_milliseconds(facts.started.time_since_epoch());
  span.started = facts.started_at;
  span.uid = facts.uid;
  span.command = facts.command;
  if (facts.user) span.user = *facts.user;
}

}  // namespace

void ProcessRecorder::on_snapshot(const Snapshot& snapshot, const ProcessDirectory& directory,
                                  const LeaseLookup& lease_of) {
  for (const DeviceState& device : snapshot.devices) {
    const auto& list = device.sample.processes();
    if (!list || list->processes() == nullptr) continue;
    update_spans(device, *list, snapshot, directory, lease_of);
  }
  if (last_save_at_ == TimePoint{}) last_save_at_ = snapshot.taken;
  if (snapshot.taken - last_save_at_ >= kSaveInterval) {
    last_save_at_ = snapshot.taken;
    for (const auto& [key, open] : open_spans_) {
      if (open.saved) writer_.add(open.span);
    }
  }
  writer_.flush();
}

void ProcessRecorder::update_spans(const DeviceState& device, const ProcessList& list,
                                   const Snapshot& snapshot, const ProcessDirectory& directory,
                                   const LeaseLookup& lease_of) {
  const DeviceId& gpu = device.info.id;
  const auto age =
      std::chrono::duration_cast<std::chrono::milliseconds>(snapshot.taken - list.taken);
  const WallTime wall = snapshot.wall - age;
  const bool newer = std::exchange(listed_at_[gpu], list.taken) != list.taken;
  std::set<std::uint32_t> present;
  for (const GpuProcess& process : *list.processes()) {
    present.insert(process.pid);
    const auto facts = directory.find(process.pid);
    const bool known = open_spans_.contains({gpu, process.pid});
    if (!known && (!newer || open_spans_.size() >= kMaxOpenSpans)) continue;
    OpenSpan& open = open_spans_[{gpu, process.pid}];
    const bool another =
        known && facts && open.span.started_boot_ms != 0 &&
        open.span.started_boot_ms != to_milliseconds((*facts)->started.time_since_epoch());
    if (another) end_span(open);
    if (!known || another) {
      open = {};
      open.span = {.gpu = gpu, .pid = process.pid, .boot_id = boot_id_};
      open.span.lease = lease_of(gpu);
      open.span.first_seen = wall;
    }
    ProcessSpan& span = open.span;
    span.last_seen = wall;
    if (process.memory_bytes) {
      span.peak_memory_bytes = std::max(span.peak_memory_bytes.value_or(0), *process.memory_bytes);
    }
    if (!facts) continue;
    apply_facts(span, **facts);
    if (!std::exchange(open.saved, true)) writer_.add(span);
  }
  if (!newer) return;
  for (auto one = open_spans_.lower_bound({gpu, 0}); one != open_spans_.end();) {
    if (std::get<0>(one->first) != gpu) break;
    if (present.contains(std::get<1>(one->first))) {
      ++one;
      continue;
    }
    end_span(one->second);
    one = open_spans_.erase(one);
  }
}

void ProcessRecorder::end_span(OpenSpan& open) {
  ProcessSpan& span = open.span;
  span.over = true;
  // Its start is not known, and its number may be reused.
  if (span.started_boot_ms == 0) span.started_boot_ms = -to_unix_ms(span.first_seen);
  writer_.add(span);
}

void ProcessRecorder::flush() {
  for (const auto& [key, open] : open_spans_) writer_.add(open.span);
  writer_.flush_last();
}

std::vector<ProcessSpan> ProcessRecorder::open_spans() const {
  std::vector<ProcessSpan> spans;
  for (const auto& [key, open] : open_spans_) spans.push_back(open.span);
  return spans;
}

}  // namespace gpuyard::processes
