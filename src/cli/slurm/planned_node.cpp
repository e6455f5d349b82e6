#include "cli/slurm/planned_node.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "faces/protocol/slurm.h"

namespace gpuyard::cli::slurm {
namespace {

using protocol::HostGpu;
using protocol::HostMachine;

// A name goes into slurm.conf, where a comma, a bracket or a line end would mean more than a name,
// and NodeName=DEFAULT no node.
bool is_node_name(std::string_view name) {
  constexpr std::size_t kMaxLength = 63;
  constexpr std::string_view kCharacters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  return !name.empty() && name.size() <= kMaxLength && name.front() != '-' &&
         name.find_first_not_of(kCharacters) == name.npos &&
         !equals_ignoring_case(name, "default") && !equals_ignoring_case(name, "all");
}

// The machine's name in the word by which the user named it; nothing if that is an address.
std::optional<std::string_view> named_machine(std::string_view name) {
  if (name.find_first_of("/:") != name.npos) return std::nullopt;
  return name.substr(0, name.find('.'));
}

std::optional<Error> name_problem(const PlannedHost& host) {
  const auto& hostname = host.inventory.machine.hostname;
  if (!hostname || !is_node_name(*hostname)) {
    return Error{
        Errc::invalid,
        hostname ? fmt::format("{}: its host name \"{}\" cannot be a node of Slurm",
                               printable(host.name), printable(*hostname))
                 : fmt::format("{}: the machine has no host name", printable(host.name)),
        "slurm.conf names each machine by its `hostname -s`",
        "sudo hostnamectl set-hostname NAME  # on that machine, then restart gpuyard there"};
  }
  const auto named = named_machine(host.name);
  if (!named || equals_ignoring_case(*named, *hostname)) return std::nullopt;
  if (host.inventory.machine.in_container.value_or(false)) {
    return Error{Errc::invalid,
                 fmt::format("{}: the machine calls itself {}", printable(host.name), *hostname),
                 "its daemon runs in a container, which has a host name of its own",
                 "docker run --uts=host ...  # gives the container the machine's name"};
  }
  return Error{Errc::invalid,
               fmt::format("{}: the machine calls itself {}", printable(host.name), *hostname),
               "slurm.conf names each machine by its `hostname -s`",
               fmt::format("gpuyard slurm plan --hosts {} ...  # its own name\n"
                           "sudo hostnamectl set-hostname {}  # or rename the machine",
                           *hostname, printable(*named))};
}

Error unknown_fact(const PlannedHost& host, std::string_view fact) {
  return {
      Errc::unavailable, fmt::format("{}: {} unknown", printable(host.name), fact),
      "the daemon could not read it from /sys or /proc",
      "ls /sys/devices/system/cpu/online /proc/meminfo  # on that machine, as the daemon sees it"};
}

std::string gpu_name(const PlannedHost& host, const HostGpu& gpu) {
  return fmt::format("{}: GPU {}", printable(host.name), gpu.index);
}

std::optional<Error> gpu_problem(const PlannedHost& host, const HostGpu& gpu) {
  const std::string doctor = "gpuyard doctor  # on that machine; plan again once the GPU is well";
  if (gpu.lost) {
    return Error{Errc::device_lost,
                 fmt::format("{} is lost: {}", gpu_name(host, gpu), printable(*gpu.lost)),
                 "a plan without it would have to be made again", doctor};
  }
  const bool has_minor =
      gpu.minor && *gpu.minor >= 0 && *gpu.minor <= static_cast<std::int64_t>(protocol::kMaxMinor);
  if (!has_minor) {
    return Error{Errc::unavailable,
                 fmt::format("{}: the number of its device file is unknown", gpu_name(host, gpu)),
                 "gres.conf names the file /dev/nvidiaN", doctor};
  }
  if (trim(gpu.name).empty()) {
    return Error{Errc::unavailable, fmt::format("{}: its model is unknown", gpu_name(host, gpu)),
                 "gres.conf has the model as its Type", doctor};
  }
  if (!gpu.mig_enabled) {
    return Error{Errc::unavailable, fmt::format("{}: its MIG mode is unknown", gpu_name(host, gpu)),
                 "the plan leaves out GPUs in MIG mode", doctor};
  }
  return std::nullopt;
}

std::vector<Error> gpu_problems(const PlannedHost& host) {
  std::vector<Error> problems;
  std::set<std::int64_t> minors;
  for (const HostGpu& gpu : host.inventory.gpus) {
    if (auto problem = gpu_problem(host, gpu)) {
      problems.push_back(*std::move(problem));
    } else if (!minors.insert(*gpu.minor).second) {
      problems.push_back({Errc::invalid,
                          fmt::format("{}: another GPU has its device file /dev/nvidia{}",
                                      gpu_name(host, gpu), *gpu.minor),
                          "", "gpuyard doctor  # on that machine"});
    }
  }
  return problems;
}

// Nothing unless the numbers agree with each other.
std::optional<CoreLayout> layout_of(const HostMachine& machine) {
  if (!machine.sockets || !machine.cores_per_socket || !machine.threads_per_core) {
    return std::nullopt;
  }
  const CoreLayout layout{*machine.sockets, *machine.cores_per_socket, *machine.threads_per_core};
  const auto is_count = [](std::int64_t number) { return number > 0 && number <= kMaxNodeCpus; };
  const bool agrees = is_count(layout.sockets) && is_count(layout.cores_per_socket) &&
                      is_count(layout.threads_per_core) && layout.cores() <= kMaxNodeCpus &&
                      layout.cores() * layout.threads_per_core == machine.cpus;
  return agrees ? std::optional(layout) : std::nullopt;
}

// The cores near a GPU; "" if they are unknown, or all cores.
std::string cores_near(const HostGpu& gpu, const HostMachine& machine,
                       const std::optional<CoreLayout>& layout) {
  if (!gpu.numa_node || !machine.numa_nodes || !layout) return "";
  for (const protocol::NumaNode& node : *machine.numa_nodes) {
    if (node.node != *gpu.numa_node || !node.cores) continue;
    const std::set<std::uint32_t> cores(node.cores->begin(), node.cores->end());
    const auto all = static_cast<std::size_t>(layout->cores());
    if (cores.empty() || cores.size() >= all || *cores.rbegin() >= all) return "";
    return range_text({cores.begin(), cores.end()});
  }
  return "";
}

}  // namespace

std::string gres_of(const PlannedNode& node, const GpuTypes& types) {
  std::map<std::string, std::size_t> counts;
  for (const PlannedGpu& gpu : node.gpus) ++counts[types.at(gpu.model)];
  std::vector<std::string> words;
  for (const auto& [type, count] : counts) words.push_back(fmt::format("gpu:{}:{}", type, count));
  return fmt::format("{}", fmt::join(words, ","));
}

std::string range_text(const std::vector<std::uint32_t>& numbers) {
  std::string text;
  for (std::size_t first = 0; first < numbers.size();) {
    std::size_t last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(numbers[first]);
    if (last > first) text += fmt::format("-{}", numbers[last]);
    first = last + 1;
  }
  return text;
}

std::vector<Error> problems_of(const PlannedHost& host) {
  std::vector<Error> problems;
  if (auto problem = name_problem(host)) problems.push_back(*std::move(problem));
  if (host.inventory.driver_error) {
    problems.push_back({Errc::unavailable,
                        fmt::format("{}: no driver: {}", printable(host.name),
                                    printable(*host.inventory.driver_error)),
                        "the plan takes its GPUs from the driver",
                        "gpuyard doctor  # on that machine"});
  }
  const HostMachine& machine = host.inventory.machine;
  if (machine.cpus.value_or(0) <= 0 || *machine.cpus > kMaxNodeCpus) {
    problems.push_back(unknown_fact(host, "the number of its CPUs is"));
  }
  if (machine.memory_mib.value_or(0) <= 0) {
    problems.push_back(unknown_fact(host, "its memory is"));
  }
  std::ranges::move(gpu_problems(host), std::back_inserter(problems));
  return problems;
}

PlannedNode node_of(const PlannedHost& host) {
  // The rest is the kernel's and the system's, and a kernel update may take a little more.
  constexpr std::int64_t kMemoryPercent = 98;
  constexpr std::int64_t kPercent = 100;
  const HostMachine& machine = host.inventory.machine;
  PlannedNode node{*machine.hostname, *machine.cpus, layout_of(machine)};
  // Divided first: a product could be too large.
  node.memory_mib =
      std::max<std::int64_t>(1, *machine.memory_mib / kPercent * kMemoryPercent +
                                    *machine.memory_mib % kPercent * kMemoryPercent / kPercent);
  for (const HostGpu& gpu : host.inventory.gpus) {
    if (*gpu.mig_enabled) {
      node.left_out.push_back(fmt::format("GPU {} ({}) of {}, /dev/nvidia{}: MIG mode is on",
                                          gpu.index, printable(gpu.name), node.name, *gpu.minor));
    } else {
      node.gpus.push_back({*gpu.minor, gpu.name, cores_near(gpu, machine, node.layout)});
    }
  }
  std::ranges::sort(node.gpus, {}, &PlannedGpu::minor);
  return node;
}

}  // namespace gpuyard::cli::slurm
