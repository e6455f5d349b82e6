// A world as users and scripts see it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "base/result.h"

namespace gpuyard::sim {

struct ProcessStatus {
  std::uint32_t pid = 0;
  bool synthetic = false;
  std::string kind;  // compute, graphics
  std::uint64_t memory_bytes = 0;
  std::uint32_t sm_percent = 0;
};
BOOST_DESCRIBE_STRUCT(ProcessStatus, (), (pid, synthetic, kind, memory_bytes, sm_percent))

// A setter call that the world server applied or refused, or another event that restored settings:
// a reset, a new session of the driver. The meaning of the values depends on the setting: see
// docs/simulator.md.
struct WriteStatus {
  std::uint64_t sequence = 0;
  std::uint64_t at_boot_ms = 0;  // CLOCK_BOOTTIME
  std::optional<int> gpu;        // its current index; empty: unplugged, or no single GPU
  std::string uuid;
  std::string setting;
  std::vector<std::uint64_t> values;
  int nvml_code = 0;  // 0: it is in force
  std::uint32_t pid = 0;
  std::uint32_t uid = 0;
};
BOOST_DESCRIBE_STRUCT(WriteStatus, (),
                      (sequence, at_boot_ms, gpu, uuid, setting, values, nvml_code, pid, uid))

struct EventStatus {
  std::uint64_t sequence = 0;
  std::optional<int> gpu;
  std::string uuid;
  std::string type;  // single_bit_ecc, double_bit_ecc, xid
  std::uint64_t data = 0;
};
BOOST_DESCRIBE_STRUCT(EventStatus, (), (sequence, gpu, uuid, type, data))

struct SettingsStatus {
  std::vector<std::uint32_t> locked_sm_mhz;      // lowest and highest; empty: not locked
  std::vector<std::uint32_t> locked_memory_mhz;  // likewise
  bool persistence_mode = false;
  std::string compute_mode;
  std::optional<bool> ecc_mode;          // empty: the model has no ECC
  std::optional<bool> ecc_mode_pending;  // likewise
};
BOOST_DESCRIBE_STRUCT(SettingsStatus, (),
                      (locked_sm_mhz, locked_memory_mhz, persistence_mode, compute_mode, ecc_mode,
                       ecc_mode_pending))

struct GpuStatus {
  std::optional<int> index;  // empty: it is unplugged
  std::string model;
  std::string uuid;
  std::string name;
  std::string pci_address;
  std::string workload;
  std::uint64_t memory_total_bytes = 0;
  std::uint64_t memory_used_bytes = 0;  // with the driver's reserve
  std::uint32_t utilization_percent = 0;
  std::uint32_t memory_utilization_percent = 0;
  std::uint32_t temperature_celsius = 0;
  std::optional<std::uint32_t> memory_temperature_celsius;
  std::vector<std::uint32_t> fan_percent;
  double power_w = 0;
  double power_limit_w = 0;
  double energy_joules = 0;  // since the world began or the GPU was reset
  std::uint32_t sm_clock_mhz = 0;
  std::uint32_t memory_clock_mhz = 0;
  std::uint64_t clock_reasons = 0;  // NVML's bits
  std::uint32_t performance_state = 0;
  std::uint32_t pcie_generation = 0;
  std::uint32_t pcie_width = 0;
  std::uint64_t pcie_tx_bytes_per_s = 0;
  std::uint64_t pcie_rx_bytes_per_s = 0;
  std::uint64_t ecc_corrected = 0;    // aggregate, of all locations
  std::uint64_t ecc_uncorrected = 0;  // likewise
  std::uint32_t remapped_rows = 0;
  std::uint32_t retired_pages = 0;
  bool repair_pending = false;  // of rows or pages: needs a reset
  SettingsStatus settings;
  std::vector<ProcessStatus> processes;
  bool lost = false;
  std::vector<std::string> conditions;  // "lost", "reset_required", "pcie_width 8"
  std::vector<std::string> faults;      // "utilization_rates: code 999", "any: never returns"
};
BOOST_DESCRIBE_STRUCT(GpuStatus, (),
                      (index, model, uuid, name, pci_address, workload, memory_total_bytes,
                       memory_used_bytes, utilization_percent, memory_utilization_percent,
                       temperature_celsius, memory_temperature_celsius, fan_percent, power_w,
                       power_limit_w, energy_joules, sm_clock_mhz, memory_clock_mhz, clock_reasons,
                       performance_state, pcie_generation, pcie_width, pcie_tx_bytes_per_s,
                       pcie_rx_bytes_per_s, ecc_corrected, ecc_uncorrected, remapped_rows,
                       retired_pages, repair_pending, settings, processes, lost, conditions,
                       faults))

struct DriverStatus {
  bool loaded = true;
  std::uint64_t session = 1;  // rises by 1 with each load
  std::string version;
  std::vector<std::string> faults;  // faults of calls, whichever GPU they are about
};
BOOST_DESCRIBE_STRUCT(DriverStatus, (), (loaded, session, version, faults))

struct TimeStatus {
  std::string mode;      // real, scaled, stepped
  double speed = 1;      // simulated seconds in a real one; meaningless in a stepped world
  double elapsed_s = 0;  // simulated, since the world began
};
BOOST_DESCRIBE_STRUCT(TimeStatus, (), (mode, speed, elapsed_s))

// The progress of a scenario.
struct TimelineStatus {
  std::uint32_t entries = 0;
  std::uint32_t done = 0;
  std::uint32_t refused = 0;  // of those done, for a reason that showed only then
};
BOOST_DESCRIBE_STRUCT(TimelineStatus, (), (entries, done, refused))

struct WorldStatus {
  int schema = 1;
  std::string directory;
  pid_t keeper_pid = 0;
  std::uint64_t generation = 0;
  TimeStatus time;
  DriverStatus driver;
  TimelineStatus timeline;
  std::string setters;               // who may call NVML's setters
  std::vector<GpuStatus> gpus;       // by index, then the unplugged ones
  std::uint64_t writes_dropped = 0;  // older than those listed
  std::vector<WriteStatus> writes;   // the last 16,384, the oldest first
  std::vector<EventStatus> events;   // the last 256
};
BOOST_DESCRIBE_STRUCT(WorldStatus, (),
                      (schema, directory, keeper_pid, generation, time, driver, timeline, setters,
                       gpus, writes_dropped, writes, events))

// Errc::not_found: there is no world. Errc::unavailable: its world server is dead or does not
// answer.
Result<WorldStatus> world_status(const std::string& directory);

}  // namespace gpuyard::sim
