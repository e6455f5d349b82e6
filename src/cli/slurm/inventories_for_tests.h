// Inventories of machines for tests of a plan.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cli/slurm/planned_node.h"

namespace gpuyard::cli::slurm {

struct TestSockets {
  unsigned sockets = 2;
  unsigned cores = 8;  // of each socket
  unsigned threads = 2;
  unsigned numa_nodes = 1;  // of each socket; they share its cores

  unsigned cpus() const { return sockets * cores * threads; }
};

// A machine whose second threads have the last numbers, as under Linux.
inline PlannedHost host_with(const std::string& name, const TestSockets& has,
                             std::int64_t memory_mib) {
  PlannedHost host{name, {}};
  protocol::HostMachine& machine = host.inventory.machine;
  machine.hostname = machine.full_hostname = name;
  machine.cpus = has.cpus();
  machine.sockets = has.sockets;
  machine.cores_per_socket = has.cores;
  machine.threads_per_core = has.threads;
  machine.memory_mib = memory_mib;
  machine.numa_nodes.emplace();
  const unsigned cores_of_node = has.cores / has.numa_nodes;
  for (unsigned i = 0; i < has.sockets * has.numa_nodes; ++i) {
    protocol::NumaNode node{i, {}, std::vector<std::uint32_t>()};
    for (unsigned thread = 0; thread < has.threads; ++thread) {
      for (unsigned core = 0; core < cores_of_node; ++core) {
        const unsigned number = i * cores_of_node + core;
        node.cpus.push_back(thread * has.sockets * has.cores + number);
        if (thread == 0) node.cores->push_back(number);
      }
    }
    machine.numa_nodes->push_back(std::move(node));
  }
  return host;
}

// Adds GPUs of a model, spread over the NUMA nodes in order. Their numbers follow those before
// them.
inline void add_gpus(PlannedHost& host, const std::string& model, unsigned count) {
  const auto nodes = static_cast<unsigned>(host.inventory.machine.numa_nodes->size());
  for (unsigned i = 0; i < count; ++i) {
    protocol::HostGpu gpu;
    gpu.index = static_cast<std::uint32_t>(host.inventory.gpus.size());
    gpu.minor = gpu.index;
    gpu.uuid = host.name + "-" + std::to_string(gpu.index);
    gpu.name = model;
    gpu.numa_node = i * nodes / count;
    gpu.mig_enabled = false;
    host.inventory.gpus.push_back(gpu);
  }
}

}  // namespace gpuyard::cli::slurm
