// Reads this machine's processors, memory and Slurm from sysfs, procfs and the file of slurmd. A
// fact that cannot be read is unknown: it is never 0 or 1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "faces/protocol/host.h"

namespace gpuyard::daemon {

// Reads the kernel's form of a set of numbers, "0-3,8\n", in ascending order. Nothing for another
// form, or a number above kMaxCpu.
std::optional<std::vector<std::uint32_t>> parse_cpu_list(std::string_view);
inline constexpr std::uint32_t kMaxCpu = 65'535;

// Thread: any. A call reads up to ten files of sysfs for each CPU.
class MachineReader {
 public:
  // `root` stands for "/" in tests.
  explicit MachineReader(std::string root = "") : root_(std::move(root)) {}

  protocol::HostMachine read() const;

 private:
  using CpuList = std::vector<std::uint32_t>;
  struct Topology;

  std::optional<std::string> read_text(const std::string& path) const;
  std::optional<CpuList> read_list(const std::string& path) const;
  // Returns the first of the two files that is there: newer kernels have another name for it.
  std::optional<CpuList> read_siblings(std::uint32_t cpu, const char* newer,
                                       const char* older) const;
  std::optional<std::vector<protocol::NumaNode>> read_numa_nodes() const;
  std::optional<Topology> read_topology(const CpuList& cpus,
                                        const std::vector<protocol::NumaNode>& nodes) const;
  void read_processors(protocol::HostMachine&) const;
  std::optional<std::int64_t> read_memory_mib() const;
  std::optional<std::string> read_slurm_version() const;

  std::string root_;
};

}  // namespace gpuyard::daemon
