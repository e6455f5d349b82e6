// Starting, asking and stopping a world's keeper, from other processes. Every call is bounded in
// time; none needs the keeper to be well. Any thread may call them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "sim/apply_setting.h"
#include "sim/fault.h"
#include "sim/gpu_changes.h"
#include "sim/workload.h"
#include "sim/world_file.h"
#include "sim/world_record.h"

namespace gpuyard::sim {

struct WorldOptions {
  std::string directory = default_world_directory();
  std::string model = "h100";  // or a mixed fleet: parse_fleet() says what both mean
  std::optional<int> gpus = {};
  SettersFor setters = SettersFor::owner;
  Workload load{.kind = WorkloadKind::mixed};
  std::string driver_version = {};         // empty: the usual one
  std::uint32_t process_entry_bytes = 24;  // of the newest process lists: 16, 24 or 32
  std::vector<std::string> missing = {};   // functions that its NVML lacks
  double speed = 1.0;                      // simulated seconds in a real one
  bool stepped = false;                    // time stands still but for step_world()
  // A file (sim/scenario.h) that says all of the above instead, but for `gpus` where it is given.
  std::string scenario = {};
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

// Returns once clients can read the world, at the latest after 5 s. Errc::conflict names the pid of
// a keeper that already runs there; what a dead one left behind is taken over.
Result<RunningWorld> start_keeper(const WorldOptions&, KeeperLifetime);

// Asks, waits up to 2 s, then kills. Errc::not_found if no keeper runs there; then what a dead one
// left behind is removed, and nothing else. Errc::denied: the world is another user's.
Result<void> stop_keeper(const std::string& directory);

inline constexpr double kLeastSpeed = 0.01;
inline constexpr double kMostSpeed = 1000.0;

// In force when these return. A GPU is named by its index, or kEveryGpu. Errc::not_found: no such
// GPU. Errc::denied: another user's keeper. Errc::unsupported: a GPU of that model cannot have it.
// A fault adds to those the GPU has; add_fault() says how, and when it is refused.
Result<void> clear_faults(const std::string& directory, int gpu);
Result<void> inject(const std::string& directory, int gpu, const Fault&);
Result<void> set_load(const std::string& directory, int gpu, const Workload&);

// Makes the GPU's surroundings so many degrees (0 to 100) hotter than the world's.
Result<void> set_heat(const std::string& directory, int gpu, double degrees);

// The same for its memory alone.
Result<void> set_memory_heat(const std::string& directory, int gpu, double degrees);

// The driver of all GPUs; driver_changes.h says what becomes of them. `version` "": as it was.
Result<void> unload_driver(const std::string& directory);
Result<void> load_driver(const std::string& directory, const std::string& version);
Result<void> reload_driver(const std::string& directory, std::chrono::milliseconds away,
                           const std::string& version);

// See unplug() and plug(). Clients see the difference when they initialise next.
Result<void> unplug_gpu(const std::string& directory, int gpu);
Result<void> plug_gpu(const std::string& directory, const std::string& uuid,
                      std::optional<int> index);

// Moves a stepped world on, by whole steps of its physics; it is published when this returns.
// Errc::conflict: its time goes by itself. Takes as long as the physics take.
Result<void> step_world(const std::string& directory, std::chrono::milliseconds);

// What a process uses of a GPU.
struct ProcessDemand {
  ProcessKind kind = ProcessKind::compute;
  std::uint64_t vram_bytes = std::uint64_t{1} << 30;
  double load = 1.0;  // 0 to 1
};

// The process is on the GPU until it dies. Attached again, it asks anew. Errc::not_found: no such
// process or GPU. Errc::conflict: the GPU has not the memory, or its compute mode does not allow
// it. Errc::busy: the world is full of processes.
Result<void> attach_process(const std::string& directory, int gpu, pid_t, const ProcessDemand&);

// So many processes that do not exist, with pids that none can have, instead of those the GPU had.
Result<void> set_synthetic_processes(const std::string& directory, int gpu, int count,
                                     const ProcessDemand& each);

// See add_memory_errors(); also raises the event that a driver raises.
Result<void> add_ecc_errors(const std::string& directory, int gpu, const MemoryErrors&);

Result<void> raise_xid(const std::string& directory, int gpu, std::uint32_t xid);

// A test may reset what it likes; a driver does not while a program has it open, nor for one who
// may not change settings. For both see reset_gpu() of the GPU itself.
enum class ResetAs { test, driver };

Result<void> reset_gpu(const std::string& directory, int gpu, ResetAs as = ResetAs::test);

}  // namespace gpuyard::sim
