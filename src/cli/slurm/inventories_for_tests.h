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

  unsigned cpus() const { return sockets * cores * threads; }
};

// A machine with a NUMA node for each socket. Linux numbers the second threads last.
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
  for (unsigned socket = 0; socket < has.sockets; ++socket) {
    protocol::NumaNode node{socket, {}, std::vector<std::uint32_t>()};
    for (unsigned thread = 0; thread < has.threads; ++thread) {
      for (unsigned core = 0; core < has.cores; ++core) {
        const unsigned number = socket * has.cores + core;
        node.cpus.push_back(thread * has.sockets * has.cores + number);
        if (thread == 0) node.cores->push_back(number);
      }
    }
    machine.numa_nodes->push_back(std::move(node));
  }
  return host;
}

// Adds GPUs of a model, spread over the sockets in order. Their numbers follow those before them.
inline void add_gpus(PlannedHost& host, const std::string& model, unsigned count) {
  const auto sockets = static_cast<unsigned>(host.inventory.machine.sockets.value_or(1));
  for (unsigned i = 0; i < count; ++i) {
    protocol::HostGpu gpu;
    gpu.index = static_cast<std::uint32_t>(host.inventory.gpus.size());
    gpu.minor = gpu.index;
    gpu.uuid = host.name + "-" + std::to_string(gpu.index);
    gpu.name = model;
    gpu.numa_node = i * sockets / count;
    gpu.mig_enabled = false;
    host.inventory.gpus.push_back(gpu);
  }
}

}  // namespace gpuyard::cli::slurm
