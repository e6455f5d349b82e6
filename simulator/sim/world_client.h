// Starts, queries and stops a world's server, from other processes. Every call is bounded in time,
// even if the world server hangs. Any thread may call them.
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
#include "sim/driver_commands.h"
#include "sim/fault.h"
#include "sim/gpu_commands.h"
#include "sim/memory_errors.h"
#include "sim/workload.h"
#include "sim/world_file.h"
#include "sim/world_record.h"

namespace gpuyard::sim {

struct WorldOptions {
  std::string directory = default_world_directory();
  std::string model = "h100";  // or a mixed fleet; parse_fleet() explains both
  std::optional<int> gpus = {};
  std::string machine = {};  // worlds of different machines have different UUIDs and serials
  SetterAccess setters = SetterAccess::owner;
  Workload load{.kind = WorkloadKind::mixed};
  std::string driver_version = {};         // empty: kDefaultDriver
  std::uint32_t process_entry_bytes = 24;  // of the newest process lists: 16, 24 or 32
  std::vector<std::string> missing = {};   // functions that its NVML lacks
  double speed = 1.0;                      // simulated seconds in a real one
  bool stepped = false;                    // only step_world() advances time
  // Simulates PCI devices that the kernel suspends once unused for this long (sim/pci_tree.h).
  std::optional<int> suspend_after_s = {};
  // A file (sim/scenario.h) that replaces all of the above, except `gpus` where it is given.
  std::string scenario = {};
  // The world is a demo: a few processes of its own use some of its GPUs (sim/demo.h). The text is
  // the Unix socket of the daemon that leases GPUs to them; "" where there is none.
  std::optional<std::string> demo = {};
  // The directory belongs to this world alone: it is removed when the world server ends, however
  // the creator ended.
  bool private_directory = false;
  // The world server is started as `<program> sim-keeper ...`; empty: the running program.
  std::string program = {};
};

enum class WorldLifetime {
  independent,   // lives until it is stopped
  with_creator,  // ends with the RunningWorld, or with the creating process, however that ends
};

// The creator's handle of a world server. With WorldLifetime::with_creator the server ends with
// this object; an independent one goes on.
class [[nodiscard]] RunningWorld {
 public:
  RunningWorld(std::string directory, pid_t pid, UniqueFd lifeline);
  RunningWorld(RunningWorld&& other) noexcept;
  RunningWorld& operator=(RunningWorld&&) = delete;
  ~RunningWorld();

  const std::string& directory() const { return directory_; }
  pid_t server_pid() const { return server_pid_; }

 private:
  std::string directory_;
  pid_t server_pid_;
  UniqueFd lifeline_;  // the server watches the other end; empty for an independent one
};

// Returns once clients can read the world, at the latest after 5 s. Errc::conflict names the pid of
// a world server that already runs there. The files of a dead world server are taken over.
Result<RunningWorld> start_world(const WorldOptions&, WorldLifetime);

// Asks the world server to stop, waits up to 2 s, then kills it. Errc::not_found if no world server
// runs there; then only the files of a dead world server are removed. Errc::denied: the world is
// another user's.
Result<void> stop_world(const std::string& directory);

inline constexpr double kMinSpeed = 0.01;
inline constexpr double kMaxSpeed = 1000.0;

// Changes are in force when these functions return. A GPU is named by its index, or kEveryGpu.
// Errc::not_found: no such GPU. Errc::denied: the world server is another user's.
// Errc::unsupported: a GPU of that model cannot have the fault. inject() adds to the GPU's faults;
// add_fault() says how, and when it fails.
Result<void> clear_faults(const std::string& directory, int gpu);
Result<void> inject(const std::string& directory, int gpu, const Fault&);
Result<void> set_load(const std::string& directory, int gpu, const Workload&);

// Makes the GPU's surroundings hotter than the world's by 0 to 100 degrees C.
Result<void> set_heat(const std::string& directory, int gpu, double degrees);

// The same for its memory alone.
Result<void> set_memory_heat(const std::string& directory, int gpu, double degrees);

// Change the driver of all GPUs; driver_commands.h says what happens to the GPUs. `version` "":
// unchanged.
Result<void> unload_driver(const std::string& directory);
Result<void> load_driver(const std::string& directory, const std::string& version);
Result<void> reload_driver(const std::string& directory, std::chrono::milliseconds away,
                           const std::string& version);

// See unplug() and plug(). Clients see the change when they next initialise.
Result<void> unplug_gpu(const std::string& directory, int gpu);
Result<void> plug_gpu(const std::string& directory, const std::string& uuid,
                      std::optional<int> index);

// Advances a stepped world by whole steps of its physics; the new state is published when this
// returns. Errc::conflict: the world is not stepped. Takes as long as the physics take.
Result<void> step_world(const std::string& directory, std::chrono::milliseconds);

// The share of a GPU that a process asks for.
struct ProcessDemand {
  ProcessKind kind = ProcessKind::compute;
  std::uint64_t vram_bytes = std::uint64_t{1} << 30;
  double load = 1.0;  // 0 to 1
};

// Returns the world server's record of a process with this demand. Errc::invalid: a load outside 0
// to 1.
Result<ProcessRecord> record_of(const ProcessDemand&);

// Puts a process on the GPU until it dies. Attaching it again replaces its demand. Errc::not_found:
// no such process or GPU. Errc::conflict: the GPU lacks the memory, or its compute mode forbids it.
// Errc::busy: the world is full of processes.
Result<void> attach_process(const std::string& directory, int gpu, pid_t, const ProcessDemand&);

// Replaces the GPU's synthetic processes with `count` new ones. Their pids cannot be those of real
// processes.
Result<void> set_synthetic_processes(const std::string& directory, int gpu, int count,
                                     const ProcessDemand& each);

// See add_memory_errors(); also raises the event that a driver raises.
Result<void> add_ecc_errors(const std::string& directory, int gpu, const MemoryErrors&);

Result<void> raise_xid(const std::string& directory, int gpu, std::uint32_t xid);

// A test may always reset; a driver refuses while a program has it open, and for a user who may not
// change settings. For both see reset_gpu() in apply_setting.h.
enum class ResetMode { test, driver };

Result<void> reset_gpu(const std::string& directory, int gpu, ResetMode as = ResetMode::test);

}  // namespace gpuyard::sim
