// Which of the free GPUs: so that what is linked stays together, for this claim and for the next.
#include <algorithm>
#include <map>
#include <tuple>

#include "lease/core.h"

namespace gpuyard::lease {
namespace {

enum class Level { clique, numa_node, heat };

std::int64_t heat(const Gpu& gpu) {
  return gpu.now.temperature_c.value_or(INT64_MAX);
}

std::vector<Slot> coolest_first(const std::vector<Gpu>& gpus, const GpuSet& set) {
  std::vector<Slot> slots;
  slots.reserve(set.count());
  each_slot(set, [&](Slot slot) { slots.push_back(slot); });
  std::sort(slots.begin(), slots.end(), [&](Slot one, Slot other) {
    return std::tuple(heat(gpus[one]), std::string_view(gpus[one].key)) <
           std::tuple(heat(gpus[other]), std::string_view(gpus[other].key));
  });
  return slots;
}

// GPUs that belong together. Those of which nothing is known are alone, beside others of which
// something is, and all in one part if it is known of none.
std::vector<GpuSet> parts(const std::vector<Gpu>& gpus, const GpuSet& set, Level level) {
  std::map<unsigned, GpuSet> by_name;
  GpuSet unknown;
  each_slot(set, [&](Slot slot) {
    const Gpu& gpu = gpus[slot];
    const auto name = level == Level::clique ? gpu.clique : gpu.numa_node;
    name ? by_name[*name].set(slot) : unknown.set(slot);
  });
  if (by_name.empty()) return {unknown};
  std::vector<GpuSet> all;
  for (const auto& [name, part] : by_name) all.push_back(part);
  each_slot(unknown, [&](Slot slot) { all.emplace_back().set(slot); });
  return all;
}

GpuSet pick(const std::vector<Gpu>& gpus, const GpuSet& usable, std::size_t count, Level level) {
  if (usable.count() <= count) return usable;
  if (level == Level::heat) {
    const auto slots = coolest_first(gpus, usable);
    GpuSet picked;
    for (std::size_t i = 0; i < count; ++i) picked.set(slots[i]);
    return picked;
  }
  const Level below = level == Level::clique ? Level::numa_node : Level::heat;
  const auto all = parts(gpus, usable, level);
  if (all.size() == 1) return pick(gpus, usable, count, below);
  // The smallest that is enough leaves larger ones whole; if none is, the largest is the best.
  const auto rank = [&](const GpuSet& part) {
    const auto first = coolest_first(gpus, part).front();
    const auto size = static_cast<std::int64_t>(part.count());
    const bool enough = part.count() >= count;
    return std::tuple(!enough, enough ? size : -size, heat(gpus[first]),
                      std::string_view(gpus[first].key));
  };
  const auto best = std::min_element(
      all.begin(), all.end(),
      [&](const GpuSet& one, const GpuSet& other) { return rank(one) < rank(other); });
  if (best->count() >= count) return pick(gpus, *best, count, below);
  return *best | pick(gpus, usable & ~*best, count - best->count(), level);
}

}  // namespace

GpuSet place(const std::vector<Gpu>& gpus, const GpuSet& usable, unsigned count) {
  return pick(gpus, usable, count, Level::clique);
}

}  // namespace gpuyard::lease
