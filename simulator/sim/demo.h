// The demo: what a world of its own shows before anything was done with it. A few real processes
// use some of its GPUs, and the world server gives these GPUs the load that such processes would
// ask for. The processes themselves only sleep. They are children of the world server, and the
// kernel kills them with it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/workload.h"
#include "sim/world.h"
#include "sim/world_server.h"

namespace gpuyard::sim {

// A world with fewer GPUs has no demo: at least half of the GPUs must stay idle.
inline constexpr std::size_t kMinDemoGpus = 4;

// The hidden verb of the program that runs a demo's processes.
inline constexpr const char* kDemoVerb = "sim-demo";

// One process of a demo: its GPU, the load that it stands for, and whether it has a lease.
struct DemoRole {
  const char* name;   // of the process; at most 15 bytes, the kernel's limit
  std::uint32_t gpu;  // its place
  Workload workload;
  bool leased = false;
};

// Makes a demo of the world that the options describe, if it has GPUs enough: all of its load is
// that of the demo's processes. `daemon`: the Unix socket of the daemon that gives them leases, or
// "".
void make_demo(WorldOptions&, const std::string& daemon = "");

// The roles in a world of this many GPUs, on at most half of them; none below kMinDemoGpus.
std::vector<DemoRole> demo_roles(std::size_t gpus);

// Puts the first role's GPU into surroundings that are just hot enough for an alert. Call it after
// the warm-up, when the GPU has its temperature under load.
void heat_demo_gpu(World&);

// The running demo. One thread, that of the world server, which must outlive it.
class Demo {
 public:
  // Starts a process for each role, and one that gets them leases from the daemon at the Unix
  // socket `daemon` ("": no leases) and waits in its queue. A GPU whose process cannot be started
  // is idle.
  Demo(WorldServer&, const std::string& daemon);

  // Gives the processes the load of this moment, and reaps those that ended. Call it once a second.
  void update();

 private:
  struct DemoProcess {
    DemoRole role;
    pid_t pid;
    std::uint64_t start_time;
  };

  std::optional<DemoProcess> start_process(const DemoRole&) const;
  void start_leases(const std::string& daemon) const;
  bool attach_to_gpu(const DemoProcess&);
  // The index of the GPU in this place; empty while it is unplugged.
  std::optional<std::uint32_t> index_of(std::uint32_t place) const;

  WorldServer& server_;
  std::vector<DemoProcess> processes_;
};

// Runs the hidden verb. `arguments`: those after the verb.
int demo_main(std::span<const std::string> arguments);

}  // namespace gpuyard::sim
