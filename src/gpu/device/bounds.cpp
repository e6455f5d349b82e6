#include "device/bounds.h"

#include <algorithm>
#include <array>

#include "device/catalog.h"

namespace gpuyard {
namespace {

struct Bound {
  Metric of;
  Metric by;
};

constexpr std::array kBounds = {Bound{Metric::memory_free, Metric::memory_total},
                                Bound{Metric::memory_used, Metric::memory_total},
                                Bound{Metric::bar1_free, Metric::bar1_total},
                                Bound{Metric::bar1_used, Metric::bar1_total},
                                Bound{Metric::temperature_core, Metric::temperature_slowdown},
                                Bound{Metric::temperature_memory, Metric::temperature_memory_max},
                                Bound{Metric::power_draw, Metric::power_limit},
                                Bound{Metric::power_draw_average, Metric::power_limit},
                                Bound{Metric::power_draw_instant, Metric::power_limit},
                                Bound{Metric::power_limit, Metric::power_limit_max},
                                Bound{Metric::power_limit_set, Metric::power_limit_max},
                                Bound{Metric::clock_graphics, Metric::clock_graphics_max},
                                Bound{Metric::clock_sm, Metric::clock_sm_max},
                                Bound{Metric::clock_memory, Metric::clock_memory_max},
                                Bound{Metric::clock_video, Metric::clock_video_max},
                                Bound{Metric::pcie_generation, Metric::pcie_generation_max},
                                Bound{Metric::pcie_width, Metric::pcie_width_max}};

}  // namespace

std::optional<std::int64_t> upper_bound_of(Metric metric, const Sample& sample) {
  constexpr std::int64_t kWhole = 100;
  if (row_of(metric).unit == Unit::percent) return kWhole;
  const auto bound = std::ranges::find(kBounds, metric, &Bound::of);
  const std::int64_t* const value = bound == kBounds.end() ? nullptr : sample.number(bound->by);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

}  // namespace gpuyard
