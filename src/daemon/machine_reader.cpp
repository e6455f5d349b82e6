#include "daemon/machine_reader.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/container.h"
#include "base/files.h"
#include "base/identifiers.h"
#include "base/text.h"

namespace gpuyard::daemon {
namespace {

constexpr std::size_t kMaxSysfsBytes = std::size_t{64} * 1024;
constexpr const char* kCpuFolder = "/sys/devices/system/cpu";
constexpr const char* kNodeFolder = "/sys/devices/system/node";

// "22.05.8", "24.11.0-0rc1"
bool is_slurm_version(std::string_view text) {
  constexpr std::size_t kMaxLength = 20;
  constexpr std::size_t kRelease = 6;  // where the number after "22.05." begins
  return text.size() > kRelease && text.size() <= kMaxLength && is_digit(text[0]) &&
         is_digit(text[1]) && text[2] == '.' && is_digit(text[3]) && is_digit(text[4]) &&
         text[5] == '.' && is_digit(text[kRelease]) &&
         text.find_first_not_of("0123456789.-abcdefghijklmnopqrstuvwxyz", kRelease) == text.npos;
}

}  // namespace

std::optional<std::vector<std::uint32_t>> parse_cpu_list(std::string_view text) {
  std::set<std::uint32_t> found;
  std::string_view rest = trim(text);
  while (!rest.empty()) {
    std::string_view range = take_until(',', rest);
    const auto first = take_number<std::uint32_t>(range);
    auto last = first;
    if (take_prefix(range, "-")) last = take_number<std::uint32_t>(range);
    if (!first || !last || !range.empty() || *first > *last || *last > kMaxCpu) {
      return std::nullopt;
    }
    for (std::uint32_t cpu = *first; cpu <= *last; ++cpu) found.insert(cpu);
  }
  return std::vector(found.begin(), found.end());
}

// The cores of each socket in Slurm's order, which is hwloc's: of nested sets of CPUs, those with
// the lowest CPU come first.
struct MachineReader::Topology {
  std::size_t sockets = 0;
  std::optional<std::size_t> cores_per_socket;
  std::optional<std::size_t> threads_per_core;
  std::map<std::uint32_t, std::uint32_t> core_of_cpu;  // empty if the sockets differ
};

std::optional<std::string> MachineReader::read_text(const std::string& path) const {
  const auto text = read_file(root_ + path, kMaxSysfsBytes);
  return text ? std::optional(std::string(trim(*text))) : std::nullopt;
}

std::optional<MachineReader::CpuList> MachineReader::read_list(const std::string& path) const {
  const auto text = read_text(path);
  return text ? parse_cpu_list(*text) : std::nullopt;
}

std::optional<MachineReader::CpuList> MachineReader::read_siblings(std::uint32_t cpu,
                                                                   const char* newer,
                                                                   const char* older) const {
  for (const char* const name : {newer, older}) {
    auto list = read_list(fmt::format("{}/cpu{}/topology/{}", kCpuFolder, cpu, name));
    if (list && std::ranges::binary_search(*list, cpu)) return list;
  }
  return std::nullopt;
}

std::optional<std::vector<protocol::NumaNode>> MachineReader::read_numa_nodes() const {
  const auto numbers = read_list(std::string(kNodeFolder) + "/online");
  if (!numbers) return std::nullopt;
  std::vector<protocol::NumaNode> nodes;
  for (const std::uint32_t number : *numbers) {
    auto cpus = read_list(fmt::format("{}/node{}/cpulist", kNodeFolder, number));
    if (!cpus) return std::nullopt;
    nodes.push_back({number, *std::move(cpus), std::nullopt});
  }
  return nodes;
}

std::optional<MachineReader::Topology> MachineReader::read_topology(
    const CpuList& cpus, const std::vector<protocol::NumaNode>& nodes) const {
  using Path = std::vector<std::uint32_t>;  // the lowest CPU of each set around a core
  std::map<std::uint32_t, std::set<std::uint32_t>> cores_of_socket;  // each by its lowest CPU
  std::map<std::uint32_t, std::size_t> threads_of_core;
  std::map<Path, std::uint32_t> core_of_path;
  for (const std::uint32_t cpu : cpus) {
    const auto socket = read_siblings(cpu, "package_cpus_list", "core_siblings_list");
    const auto core = read_siblings(cpu, "core_cpus_list", "thread_siblings_list");
    if (!socket || !core) return std::nullopt;
    cores_of_socket[socket->front()].insert(core->front());
    ++threads_of_core[core->front()];
    std::vector<CpuList> sets = {*socket};
    for (const protocol::NumaNode& node : nodes) {
      if (std::ranges::binary_search(node.cpus, cpu)) sets.push_back(node.cpus);
    }
    if (const auto die = read_siblings(cpu, "die_cpus_list", "die_cpus_list")) sets.push_back(*die);
    const std::string cache = fmt::format("{}/cpu{}/cache/index3", kCpuFolder, cpu);
    if (read_text(cache + "/level") == "3") {
      const auto shared = read_list(cache + "/shared_cpu_list");
      if (shared && !shared->empty()) sets.push_back(*shared);
    }
    std::ranges::sort(sets, std::ranges::greater{}, &CpuList::size);
    Path path;
    for (const CpuList& set : sets) path.push_back(set.front());
    path.push_back(core->front());
    core_of_path.emplace(std::move(path), core->front());
  }
  if (cores_of_socket.empty() || core_of_path.size() != threads_of_core.size()) return std::nullopt;
  Topology topology;
  topology.sockets = cores_of_socket.size();
  const std::size_t cores = cores_of_socket.begin()->second.size();
  const bool even_sockets = std::ranges::all_of(
      cores_of_socket, [&](const auto& socket) { return socket.second.size() == cores; });
  const std::size_t threads = threads_of_core.begin()->second;
  const bool even_cores = std::ranges::all_of(
      threads_of_core, [&](const auto& core) { return core.second == threads; });
  if (even_sockets) topology.cores_per_socket = cores;
  if (even_cores) topology.threads_per_core = threads;
  if (!even_sockets || !even_cores) return topology;
  std::map<std::uint32_t, std::uint32_t> number_of_core;
  for (const auto& [path, core] : core_of_path) {
    number_of_core.emplace(core, static_cast<std::uint32_t>(number_of_core.size()));
  }
  for (const std::uint32_t cpu : cpus) {
    const auto core = read_siblings(cpu, "core_cpus_list", "thread_siblings_list");
    if (core) topology.core_of_cpu.emplace(cpu, number_of_core.at(core->front()));
  }
  return topology;
}

void MachineReader::read_processors(protocol::HostMachine& machine) const {
  machine.numa_nodes = read_numa_nodes();
  const auto cpus = read_list(std::string(kCpuFolder) + "/online");
  if (!cpus || cpus->empty()) return;
  machine.cpus = static_cast<std::int64_t>(cpus->size());
  const auto topology =
      read_topology(*cpus, machine.numa_nodes.value_or(std::vector<protocol::NumaNode>()));
  if (!topology) return;
  machine.sockets = static_cast<std::int64_t>(topology->sockets);
  if (topology->cores_per_socket) {
    machine.cores_per_socket = static_cast<std::int64_t>(*topology->cores_per_socket);
  }
  if (topology->threads_per_core) {
    machine.threads_per_core = static_cast<std::int64_t>(*topology->threads_per_core);
  }
  if (topology->core_of_cpu.empty() || !machine.numa_nodes) return;
  for (protocol::NumaNode& node : *machine.numa_nodes) {
    std::set<std::uint32_t> cores;
    for (const std::uint32_t cpu : node.cpus) {
      const auto core = topology->core_of_cpu.find(cpu);
      if (core != topology->core_of_cpu.end()) cores.insert(core->second);
    }
    node.cores.emplace(cores.begin(), cores.end());
  }
}

std::optional<std::int64_t> MachineReader::read_memory_mib() const {
  constexpr std::int64_t kKibPerMib = 1024;
  const auto text = read_text("/proc/meminfo");
  if (!text) return std::nullopt;
  std::string_view lines = *text;
  while (!lines.empty()) {
    std::string_view rest = take_until('\n', lines);
    if (take_until(':', rest) != "MemTotal") continue;
    rest = trim(rest);
    const auto kib = take_number<std::int64_t>(rest);
    if (!kib || trim(rest) != "kB" || *kib < kKibPerMib) return std::nullopt;
    return *kib / kKibPerMib;
  }
  return std::nullopt;
}

// slurmd has its version as a text of its own. It is not run: a request must start no program.
std::optional<std::string> MachineReader::read_slurm_version() const {
  constexpr std::size_t kMaxProgramBytes = std::size_t{32} * 1024 * 1024;
  for (const char* const path :
       {"/usr/sbin/slurmd", "/usr/local/sbin/slurmd", "/opt/slurm/sbin/slurmd"}) {
    const auto program = read_file(root_ + path, kMaxProgramBytes);
    if (!program) continue;
    std::set<std::string_view> versions;
    std::string_view rest = *program;
    while (!rest.empty()) {
      const std::string_view text = take_until('\0', rest);
      if (is_slurm_version(text)) versions.insert(text);
    }
    return versions.size() == 1 ? std::optional(std::string(*versions.begin())) : std::nullopt;
  }
  return std::nullopt;
}

protocol::HostMachine MachineReader::read() const {
  protocol::HostMachine machine;
  if (const std::string name = host_name(); !name.empty()) {
    machine.full_hostname = name;
    machine.hostname = name.substr(0, name.find('.'));
  }
  read_processors(machine);
  machine.memory_mib = read_memory_mib();
  machine.slurm_version = read_slurm_version();
  machine.in_container = is_in_container(root_);
  return machine;
}

}  // namespace gpuyard::daemon
