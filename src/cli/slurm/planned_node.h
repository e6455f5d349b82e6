// A machine as a node of Slurm, from its inventory. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/slurm/gpu_types.h"
#include "faces/protocol/host.h"

namespace gpuyard::cli::slurm {

// A machine that answered.
struct PlannedHost {
  std::string name;  // as the user named it
  protocol::HostInventory inventory;
};

struct PlannedGpu {
  std::int64_t minor = 0;
  std::string model;
  std::string cores;  // Slurm's numbers, "0-15"; empty: all, or unknown
};

struct CoreLayout {
  std::int64_t sockets = 0;
  std::int64_t cores_per_socket = 0;
  std::int64_t threads_per_core = 0;

  std::int64_t cores() const { return sockets * cores_per_socket; }
};

struct PlannedNode {
  std::string name;                        // `hostname -s`
  std::int64_t cpus = 0;                   // threads included
  std::optional<CoreLayout> layout = {};   // nothing: unknown, so each CPU counts as a core
  std::int64_t memory_mib = 0;             // RealMemory
  std::vector<PlannedGpu> gpus = {};       // by minor number
  std::vector<std::string> left_out = {};  // GPUs in MIG mode, for people
};

// Slurm stores a node's CPUs in 16 bits.
inline constexpr std::int64_t kMaxNodeCpus = 65'000;

// Returns why Slurm cannot have this machine as it is, each with the next step; empty: it can.
std::vector<Error> problems_of(const PlannedHost&);

// REQUIRES: problems_of(host).empty().
PlannedNode node_of(const PlannedHost& host);

// "gpu:a100:2,gpu:h100:6", the value of Gres=; "" without GPUs. REQUIRES: each model has a type.
std::string gres_of(const PlannedNode&, const GpuTypes& types);

// "0-3,8" from ascending numbers.
std::string range_text(const std::vector<std::uint32_t>& numbers);

}  // namespace gpuyard::cli::slurm
