#include "core/lease/placement.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>

namespace gpuyard::lease {
namespace {

using Gpus = std::vector<Gpu>;

enum class Nearness { clique, numa_node, heat };

std::optional<unsigned> group(const Gpu& gpu, Nearness nearness) {
  return nearness == Nearness::clique ? gpu.clique : gpu.numa_node;
}

auto heat(const Gpu& gpu) {
  return std::tuple(gpu.availability.temperature_c.value_or(INT64_MAX), std::string_view(gpu.key));
}

Slot coolest(const Gpus& gpus, const GpuSet& set) {
  Slot best = set._Find_first();
  auto lowest = heat(gpus[best]);
  for_each_slot(set, [&](Slot slot) {
    const auto its = heat(gpus[slot]);
    if (its >= lowest) return;
    lowest = its;
    best = slot;
  });
  return best;
}

// Visits groups of near GPUs, one after the other. A GPU whose group is not known is alone, if the
// group of another is known. If none is known, all GPUs are one group.
template <class Visit>
void for_each_part(const Gpus& gpus, GpuSet rest, Nearness nearness, Visit&& visit) {
  bool any_known = false;
  for_each_slot(rest, [&](Slot slot) { any_known = any_known || group(gpus[slot], nearness); });
  if (!any_known) return visit(rest);
  while (rest.any()) {
    const Slot first = rest._Find_first();
    const auto name = group(gpus[first], nearness);
    GpuSet part;
    part.set(first);
    if (name) {
      for_each_slot(rest, [&](Slot slot) { part.set(slot, group(gpus[slot], nearness) == name); });
    }
    rest &= ~part;
    visit(part);
  }
}

// Returns the smallest group that is enough, to leave larger ones whole; if none is enough, the
// largest.
GpuSet best_part(const Gpus& gpus, const GpuSet& usable, std::size_t count, Nearness nearness) {
  const auto rank = [&](const GpuSet& part) {
    const auto size = static_cast<std::int64_t>(part.count());
    const bool enough = part.count() >= count;
    return std::tuple(!enough, enough ? size : -size, heat(gpus[coolest(gpus, part)]));
  };
  GpuSet best;
  std::optional<decltype(rank(best))> lowest;
  for_each_part(gpus, usable, nearness, [&](const GpuSet& part) {
    const auto its = rank(part);
    if (lowest && its >= *lowest) return;
    lowest = its;
    best = part;
  });
  return best;
}

GpuSet pick_gpus(const Gpus& gpus, GpuSet usable, std::size_t count, Nearness nearness) {
  GpuSet picked;
  while (usable.count() > count) {
    if (nearness == Nearness::heat) {
      const Slot slot = coolest(gpus, usable);
      picked.set(slot);
      usable.reset(slot);
      if (--count == 0) return picked;
      continue;
    }
    const GpuSet best = best_part(gpus, usable, count, nearness);
    if (best.count() >= count) {
      const Nearness below = nearness == Nearness::clique ? Nearness::numa_node : Nearness::heat;
      return picked | pick_gpus(gpus, best, count, below);
    }
    picked |= best;
    usable &= ~best;
    count -= best.count();
  }
  return picked | usable;
}

}  // namespace

GpuSet choose_placement(const Gpus& gpus, const GpuSet& usable, unsigned count) {
  return pick_gpus(gpus, usable, count, Nearness::clique);
}

}  // namespace gpuyard::lease
