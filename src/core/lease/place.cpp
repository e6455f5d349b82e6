// Which of the free GPUs: so that what is linked stays together, for this claim and for the next.
// Nothing here allocates.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>

#include "lease/core.h"

namespace gpuyard::lease {
namespace {

using Gpus = std::vector<Gpu>;

enum class Nearness { clique, numa_node, heat };

std::optional<unsigned> group(const Gpu& gpu, Nearness nearness) {
  return nearness == Nearness::clique ? gpu.clique : gpu.numa_node;
}

auto heat(const Gpu& gpu) {
  return std::tuple(gpu.now.temperature_c.value_or(INT64_MAX), std::string_view(gpu.key));
}

Slot coolest(const Gpus& gpus, const GpuSet& set) {
  Slot best = set._Find_first();
  auto lowest = heat(gpus[best]);
  each_slot(set, [&](Slot slot) {
    const auto its = heat(gpus[slot]);
    if (its >= lowest) return;
    lowest = its;
    best = slot;
  });
  return best;
}

// GPUs that belong together, one part after the other. Those of which nothing is known are alone,
// beside others of which something is, and all in one part if it is known of none.
template <class Visit>
void each_part(const Gpus& gpus, GpuSet rest, Nearness nearness, Visit&& visit) {
  bool any_known = false;
  each_slot(rest, [&](Slot slot) { any_known = any_known || group(gpus[slot], nearness); });
  if (!any_known) return visit(rest);
  while (rest.any()) {
    const Slot first = rest._Find_first();
    const auto name = group(gpus[first], nearness);
    GpuSet part;
    part.set(first);
    if (name) {
      each_slot(rest, [&](Slot slot) { part.set(slot, group(gpus[slot], nearness) == name); });
    }
    rest &= ~part;
    visit(part);
  }
}

// The smallest that is enough leaves larger ones whole; if none is, the largest is the best.
GpuSet best_part(const Gpus& gpus, const GpuSet& usable, std::size_t count, Nearness nearness) {
  const auto rank = [&](const GpuSet& part) {
    const auto size = static_cast<std::int64_t>(part.count());
    const bool enough = part.count() >= count;
    return std::tuple(!enough, enough ? size : -size, heat(gpus[coolest(gpus, part)]));
  };
  GpuSet best;
  std::optional<decltype(rank(best))> lowest;
  each_part(gpus, usable, nearness, [&](const GpuSet& part) {
    const auto its = rank(part);
    if (lowest && its >= *lowest) return;
    lowest = its;
    best = part;
  });
  return best;
}

GpuSet pick(const Gpus& gpus, GpuSet usable, std::size_t count, Nearness nearness) {
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
      return picked | pick(gpus, best, count, below);
    }
    picked |= best;
    usable &= ~best;
    count -= best.count();
  }
  return picked | usable;
}

}  // namespace

GpuSet place(const Gpus& gpus, const GpuSet& usable, unsigned count) {
  return pick(gpus, usable, count, Nearness::clique);
}

}  // namespace gpuyard::lease
