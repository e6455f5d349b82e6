// A stretch of time of some GPUs, and what they used in it. A window is told all of a GPU's energy,
// however many windows of it there are: that is measurement, not attribution.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "energy/account.h"

namespace gpuyard::energy {

struct WindowGpu {
  std::string uuid;
  Mark begin;
  std::optional<std::int64_t> peak_mw;  // the highest power reading since

  friend bool operator==(const WindowGpu&, const WindowGpu&) = default;
};

struct Window {
  std::string id;
  std::string name;  // of whoever began it; may be empty
  uid_t owner = 0;
  std::string boot_id;
  bool simulated = false;  // it is of such GPUs
  TimePoint began;
  WallTime began_wall{};
  Duration most{};  // then it is ended, if it was not before
  std::vector<WindowGpu> gpus;

  TimePoint ends() const { return began + most; }
  WallTime ends_wall() const {
    return began_wall + std::chrono::duration_cast<std::chrono::milliseconds>(most);
  }
  friend bool operator==(const Window&, const Window&) = default;
};

struct GpuResult {
  std::string uuid;
  std::int64_t energy_mj = 0;
  Duration length{};   // between the readings at its two edges
  Duration unknown{};  // of that, time of which the energy is not, or not wholly, known
  bool estimated = false;
  std::uint64_t epochs_crossed = 0;  // not 0: interrupted, and the energy is of the known parts
  std::optional<std::int64_t> peak_mw;
  Duration age{};  // of the reading at the end
};

struct WindowResult {
  Window window;
  Duration length{};
  std::vector<GpuResult> gpus;
};

// A driver counts energy in steps of 20 to 100 ms: over less than this a mean would be the step.
inline constexpr Duration kShortestMean = std::chrono::milliseconds(500);

// Over the time that is known; nothing if that is too short to tell.
std::optional<double> mean_watts(const GpuResult&);

GpuResult result_of(const WindowGpu&, const Mark& end, TimePoint now);

}  // namespace gpuyard::energy
