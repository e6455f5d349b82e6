// The inventory of one machine for a planner of a cluster: processors, memory, and its GPUs with
// their places.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_shape.h"
#include "base/record.h"
#include "faces/protocol/resources.h"
#include "faces/protocol/route.h"

namespace gpuyard::protocol {

struct NumaNode {
  std::uint32_t node = 0;
  std::vector<std::uint32_t> cpus;
  std::optional<std::vector<std::uint32_t>> cores;
};
BOOST_DESCRIBE_STRUCT(NumaNode, (), (node, cpus, cores))
GPUYARD_ABOUT(NumaNode, {"node", "The kernel's number of the node."},
              {"cpus", "The kernel's numbers of its CPUs; a node of memory alone has none."},
              {"cores",
               "Its cores, numbered from 0 socket by socket as hwloc and Slurm number them; null: "
               "the processors' layout is unknown or uneven."})

struct HostMachine {
  std::optional<std::string> hostname;
  std::optional<std::string> full_hostname;
  std::optional<std::int64_t> cpus;
  std::optional<std::int64_t> sockets;
  std::optional<std::int64_t> cores_per_socket;
  std::optional<std::int64_t> threads_per_core;
  std::optional<std::vector<NumaNode>> numa_nodes;
  std::optional<std::int64_t> memory_mib;
  std::optional<std::string> slurm_version;
  std::optional<bool> in_container;
};
BOOST_DESCRIBE_STRUCT(HostMachine, (),
                      (hostname, full_hostname, cpus, sockets, cores_per_socket, threads_per_core,
                       numa_nodes, memory_mib, slurm_version, in_container))
GPUYARD_ABOUT(HostMachine,
              {"hostname", "As `hostname -s` prints it; null: the machine has no name."},
              {"full_hostname", "The kernel's whole host name."},
              {"cpus", "Number of online CPUs, threads included; null: unknown."},
              {"sockets", "Number of processor packages; null: unknown."},
              {"cores_per_socket", "null: unknown, or not the same in every socket."},
              {"threads_per_core", "null: unknown, or not the same in every core."},
              {"numa_nodes", "null: unknown."}, {"memory_mib", "Main memory; null: unknown."},
              {"slurm_version",
               "Version of the slurmd in a usual directory; null: there is none, or its version "
               "is unknown."},
              {"in_container",
               "Whether the daemon runs in a container, which may have a host name of its own. "
               "null: unknown."})

struct HostGpu {
  std::uint32_t index = 0;
  std::optional<std::int64_t> minor;
  std::string uuid;
  std::string pci_address;
  std::string name;
  std::optional<std::int64_t> numa_node;
  std::optional<bool> mig_enabled;
  std::optional<std::string> lost;
};
BOOST_DESCRIBE_STRUCT(HostGpu, (),
                      (index, minor, uuid, pci_address, name, numa_node, mig_enabled, lost))
GPUYARD_ABOUT(HostGpu, {"minor", "The N of its device file /dev/nvidiaN; null: unknown."},
              {"name", "Its model; empty: unknown."},
              {"numa_node", "NUMA node that it is attached to; null: unknown."},
              {"mig_enabled", "MIG mode; false also for a GPU without MIG. null: unknown."},
              {"lost", "Why the GPU is lost; null: it is not."})

struct HostInventory {
  int schema = kSchemaVersion;
  bool simulated = false;
  std::optional<std::string> driver_error;
  HostMachine machine;
  std::vector<HostGpu> gpus;
};
BOOST_DESCRIBE_STRUCT(HostInventory, (), (schema, simulated, driver_error, machine, gpus))

inline constexpr std::array kHostErrors = {Errc::busy};

inline constexpr Route<NoParams, HostInventory> kHost{
    {"GET", "/api/gpu/host", "GPU", Scope::read, GpuScope::whole,
     "The machine's inventory for a scheduler: host name, processors, memory, NUMA nodes, the "
     "version of Slurm, and each GPU's device file and NUMA node.",
     kHostErrors}};

}  // namespace gpuyard::protocol

namespace gpuyard::json {

GPUYARD_SCHEMA(protocol::NumaNode);
GPUYARD_SCHEMA(protocol::HostMachine);
GPUYARD_SCHEMA(protocol::HostGpu);
GPUYARD_SCHEMA(protocol::HostInventory);

}  // namespace gpuyard::json
