#include "lease/drain.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpuyard::lease {

std::optional<std::string> DrainBook::left(const Lease& lease, const Sight& sight,
                                           const GpuBook& gpus) const {
  const auto alive = sight.alive.find(lease.id);
  if (alive == sight.alive.end()) return "its processes could not be looked for";
  if (!alive->second.empty()) {
    return fmt::format("{} of its processes still run{}, pid {} among them", alive->second.size(),
                       alive->second.size() == 1 ? "s" : "", alive->second.front().pid);
  }
  for (const DeviceId& gpu : lease.gpus) {
    // What is not there any more holds nobody's memory; it is not handed out either.
    const auto withheld = gpus.withheld(gpu);
    if (withheld && withheld->first == "lost") continue;
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
  const auto member = std::find_if(processes.begin(), processes.end(), [&](const Seen& one) {
    return one.verdict == Seen::Verdict::member && one.lease == lease.id;
  });
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
