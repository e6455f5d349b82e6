#include "energy/window.h"

namespace gpuyard::energy {

std::optional<double> mean_watts(const GpuResult& result) {
  const Duration known = result.length - result.unknown;
  if (known < kShortestMean) return std::nullopt;
  return static_cast<double>(result.energy_mj) / 1000.0 /
         std::chrono::duration<double>(known).count();
}

GpuResult result_of(const WindowGpu& gpu, const Mark& end, TimePoint now) {
  return {gpu.uuid,
          end.device_mj - gpu.begin.device_mj,
          end.taken - gpu.begin.taken,
          end.unknown - gpu.begin.unknown,
          end.estimated_mj != gpu.begin.estimated_mj,
          end.epoch - gpu.begin.epoch,
          gpu.peak_mw,
          now - end.taken};
}

}  // namespace gpuyard::energy
