// The driver as one initialisation found it: its session, and its GPUs by index. After a later
// change - a reload, a GPU that is unplugged - its calls fail, as with a real driver, until this
// process initialises again.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gpu/nvml/abi.h"
#include "sim/world_reader.h"
#include "sim_nvml/wake_files.h"

namespace gpuyard::sim_nvml {

// Any thread. A call blocks here for as long as a fault says, at most until the fault is cleared or
// the world dies.
class OpenedDriver {
 public:
  // Returns null on failure; `code` says why: driver not loaded, or a fault's code.
  static std::shared_ptr<const OpenedDriver> open(const std::string& directory,
                                                  nvml::ReturnCode& code);

  const sim::WorldReader& world() const { return world_; }
  std::uint32_t gpu_count() const { return initial_.gpu_count; }
  std::string_view version() const;
  std::uint32_t process_entry_bytes() const { return initial_.process_entry_bytes; }
  bool has_own_time() const { return initial_.time_mode != sim::TimeMode::real; }

  // GPUs are named by place; an index is valid for this initialisation. `index` < gpu_count().
  std::uint32_t place_of(std::uint32_t index) const { return initial_.order[index]; }
  std::optional<std::uint32_t> index_of(std::uint32_t place) const;

  // For calls about no GPU: returns success, or why the driver does not answer.
  nvml::ReturnCode read() const;

  // For calls about a GPU that has an index: the same, also for faults of the GPU. Fills `now` on
  // success.
  nvml::ReturnCode read(std::uint32_t place, sim::Call, sim::RecordPair& now) const;

 private:
  OpenedDriver(sim::WorldReader world, const std::string& directory)
      : world_(std::move(world)), wake_files_(directory, world_) {}
  bool find_gpus();  // false: the world is dead
  nvml::ReturnCode check_state(const sim::DriverRecord&) const;
  nvml::ReturnCode check_state(std::uint32_t place, sim::Call, const sim::GpuRecord&) const;

  sim::WorldReader world_;
  WakeFiles wake_files_;
  sim::DriverRecord initial_;
  std::array<std::uint32_t, sim::kMaxGpus> plug_counts_{};  // by place; 0: it was not plugged in
};

// Values that follow from the version of the simulated driver. Features newer than the usual 535
// are not answered, even where a later header names them, except the recovery action: see the field
// ids in fields.cpp.
// "12.535.104" for "535.104.05".
std::string nvml_version_of(std::string_view driver);

// The driver's branch: 535 for "535.104.05"; 0 if the version does not begin with a number.
int branch_of(std::string_view driver);

// The highest CUDA version of the driver's branch, as NVML writes it: 12020 is 12.2.
int cuda_version_of(std::string_view driver);

}  // namespace gpuyard::sim_nvml
