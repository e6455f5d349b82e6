// Starting, asking and stopping a world's keeper, from other processes. Every call is bounded in
// time; none needs the keeper to be well. Any thread may call them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "base/result.h"
#include "base/unique_fd.h"
#include "sim/fault.h"
#include "sim/workload.h"
#include "sim/world_directory.h"
#include "sim/world_record.h"

namespace gpuyard::sim {

struct WorldOptions {
  std::string directory = default_world_directory();
  std::string model = "h100";
  int gpus = 8;  // 1 to kMaxGpus
  Workload load{.kind = WorkloadKind::mixed};
  // The directory is this world's own: it is removed when its keeper ends, however its creator did.
  bool private_directory = false;
  // What is run as `<program> sim-keeper ...`; empty: the running program.
  std::string program = {};
};

enum class KeeperLifetime {
  independent,   // lives until it is stopped
  with_creator,  // ends with the RunningWorld, and with the creating process however that ends
};

// The keeper as its creator holds it. With KeeperLifetime::with_creator the keeper ends when this
// does; an independent one is not touched.
class [[nodiscard]] RunningWorld {
 public:
  RunningWorld(std::string directory, pid_t keeper, UniqueFd lifeline);
  RunningWorld(RunningWorld&& other) noexcept;
  RunningWorld& operator=(RunningWorld&&) = delete;
  ~RunningWorld();

  const std::string& directory() const { return directory_; }
  pid_t keeper_pid() const { return keeper_; }

 private:
  std::string directory_;
  pid_t keeper_;
  UniqueFd lifeline_;  // the keeper watches its other end; empty for an independent one
};

struct GpuStatus {
  int index = 0;
  std::string uuid;
  std::string name;
  std::string pci_address;
  std::string workload;
  std::uint64_t memory_total_bytes = 0;
  std::uint64_t memory_used_bytes = 0;  // with what the driver reserves
  std::uint32_t utilization_percent = 0;
  std::uint32_t temperature_celsius = 0;
  double power_w = 0;
  double power_limit_w = 0;
  std::uint32_t sm_clock_mhz = 0;
  double energy_joules = 0;  // since the world began
  bool lost = false;
  std::vector<std::string> faults;  // "utilization_rates: code 999", "any: never returns"
};
BOOST_DESCRIBE_STRUCT(GpuStatus, (),
                      (index, uuid, name, pci_address, workload, memory_total_bytes,
                       memory_used_bytes, utilization_percent, temperature_celsius, power_w,
                       power_limit_w, sm_clock_mhz, energy_joules, lost, faults))

struct WorldStatus {
  std::string directory;
  pid_t keeper_pid = 0;
  std::uint64_t generation = 0;
  std::vector<GpuStatus> gpus;
};
BOOST_DESCRIBE_STRUCT(WorldStatus, (), (directory, keeper_pid, generation, gpus))

// Returns once clients can read the world, at the latest after 5 s. Errc::conflict names the pid of
// a keeper that already runs there; what a dead one left behind is taken over.
Result<RunningWorld> start_keeper(const WorldOptions&, KeeperLifetime);

// Errc::not_found: no world there. Errc::unavailable: its keeper is dead or does not answer.
Result<WorldStatus> world_status(const std::string& directory);

// Asks, waits up to 2 s, then kills. Errc::not_found if no keeper runs there; then what a dead one
// left behind is removed, and nothing else. Errc::denied: the world is another user's.
Result<void> stop_keeper(const std::string& directory);

// In force when these return. Errc::not_found: no such GPU. Errc::denied: another user's keeper.
// A fault adds to those the GPU has; add_fault() says how, and when it is refused.
Result<void> clear_faults(const std::string& directory, int gpu);
Result<void> inject(const std::string& directory, int gpu, const Fault&);
Result<void> set_load(const std::string& directory, int gpu, const Workload&);

}  // namespace gpuyard::sim
