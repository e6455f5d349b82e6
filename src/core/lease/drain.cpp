#include "lease/drain.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpuyard::lease {

namespace {

bool may_begin_again(const Lease& lease, const Process& process) {
  const bool holder = !lease.processes.empty() && lease.processes.front() == process;
  if (lease.wish.binding == Binding::run) return !holder;
  return lease.wish.binding == Binding::process && lease.ending == Ending::exited;
}

bool is_member(const Seen& one, const Lease& lease) {
  return one.verdict == Seen::Verdict::member && one.lease == lease.id;
}

}  // namespace

std::vector<Process> DrainBook::remaining(const Lease& lease, const Sight& sight) {
  std::vector<Process> all;
  if (const auto alive = sight.alive.find(lease.id); alive != sight.alive.end()) {
    std::copy_if(alive->second.begin(), alive->second.end(), std::back_inserter(all),
                 [&](const Process& one) { return may_begin_again(lease, one); });
  }
  for (const DeviceId& gpu : lease.gpus) {
    const auto list = sight.on_gpus.find(gpu);
    if (list == sight.on_gpus.end() || !list->second) continue;
    for (const Seen& one : *list->second) {
      if (is_member(one, lease) && one.started) all.push_back({one.pid, *one.started});
    }
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

std::optional<std::string> DrainBook::left(const Lease& lease, const Sight& sight,
                                           const GpuBook& gpus) const {
  if (sight.alive.count(lease.id) == 0) return "its processes could not be looked for";
  if (const auto all = remaining(lease, sight); !all.empty()) {
    return all.size() == 1
               ? fmt::format("pid {} still runs", all.front().pid)
               : fmt::format("pid {} and {} more still run", all.front().pid, all.size() - 1);
  }
  for (const DeviceId& gpu : lease.gpus) {
    if (gpus.lost(gpu)) continue;
    if (auto why = left_on(lease, gpu, sight)) return why;
  }
  return std::nullopt;
}

std::optional<std::string> DrainBook::left_on(const Lease& lease, const DeviceId& gpu,
                                              const Sight& sight) const {
  const auto list = sight.on_gpus.find(gpu);
  if (list == sight.on_gpus.end() || !list->second) {
    return "who uses " + gpu + " cannot be read now";
  }
  const auto& processes = *list->second;
  const auto member = std::find_if(processes.begin(), processes.end(),
                                   [&](const Seen& one) { return is_member(one, lease); });
  if (member != processes.end()) {
    return fmt::format("pid {} ({}) still uses {}", member->pid, member->command, gpu);
  }
  // Others may have memory there; only what nobody has is left over.
  const auto used = sight.used_bytes.find(gpu);
  const auto floor = floor_.find(gpu);
  if (!processes.empty() || used == sight.used_bytes.end() || !used->second ||
      floor == floor_.end() || *used->second <= floor->second + kSlackBytes) {
    return std::nullopt;
  }
  return fmt::format("no process is left, but {} MiB of memory of {} are still used",
                     *used->second >> 20, gpu);
}

}  // namespace gpuyard::lease
