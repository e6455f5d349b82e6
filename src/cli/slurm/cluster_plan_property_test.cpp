// Properties of a plan for all inventories: Slurm's two files agree with each other and with the
// machines.
//
// GPUYARD_CASES=100 runs 100 times as many cases; RC_PARAMS="seed=..." repeats a run.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/property_for_tests.h"
#include "base/text.h"
#include "cli/slurm/cluster_plan.h"
#include "cli/slurm/gpu_types.h"
#include "cli/slurm/inventories_for_tests.h"

namespace gpuyard::cli::slurm {
namespace {

constexpr int kPlanCases = 400;

template <class T>
T one_of(const std::vector<T>& all) {
  return *rc::gen::elementOf(all);
}

PlannedHost any_host(const std::string& name) {
  const auto numa_nodes = one_of<unsigned>({1, 1, 2, 4});
  const TestSockets has{one_of<unsigned>({1, 2, 3, 4}),
                        numa_nodes * one_of<unsigned>({1, 3, 8, 24}), one_of<unsigned>({1, 2}),
                        numa_nodes};
  PlannedHost host = host_with(name, has, *rc::gen::inRange<std::int64_t>(1, 4'000'000));
  const std::vector<std::string> models = {"NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB",
                                           "NVIDIA A100-PCIE-40GB", "NVIDIA GeForce RTX 4090",
                                           "NVIDIA H100 PCIe",      "Quadro RTX 6000",
                                           "NVIDIA RTX 6000 Ada",   "4090"};
  const auto kinds = *rc::gen::inRange(0, 4);
  for (int kind = 0; kind < kinds; ++kind) {
    add_gpus(host, one_of(models), *rc::gen::inRange(1U, 6U));
  }
  for (protocol::HostGpu& gpu : host.inventory.gpus) {
    if (one_of<int>({0, 0, 0, 1}) == 1) gpu.numa_node.reset();
    gpu.mig_enabled = one_of<int>({0, 0, 0, 0, 1}) == 1;
  }
  // Minor numbers need not follow the indexes.
  std::vector<std::int64_t> minors(host.inventory.gpus.size() + 3);
  for (std::size_t i = 0; i < minors.size(); ++i) minors[i] = static_cast<std::int64_t>(i);
  for (protocol::HostGpu& gpu : host.inventory.gpus) {
    gpu.minor = one_of(minors);
    std::erase(minors, *gpu.minor);
  }
  protocol::HostMachine& machine = host.inventory.machine;
  if (one_of<int>({0, 0, 0, 1}) == 1) machine.sockets.reset();
  if (one_of<int>({0, 0, 0, 1}) == 1) machine.numa_nodes.reset();
  return host;
}

// "Key=value" words of the lines that begin with "NodeName=".
using Words = std::map<std::string, std::string, std::less<>>;
std::vector<Words> node_lines(const ClusterPlan& plan, std::string_view file) {
  std::vector<Words> lines;
  std::string_view text = std::ranges::find(plan.files, file, &ClusterFile::name)->text;
  while (!text.empty()) {
    std::string_view line = take_until('\n', text);
    if (!line.starts_with("NodeName=")) continue;
    Words& words = lines.emplace_back();
    while (!line.empty()) {
      std::string_view word = take_until(' ', line);
      const std::string key(take_until('=', word));
      words.emplace(key, word);
    }
  }
  return lines;
}

std::int64_t number_in(const Words& words, std::string_view key) {
  const auto found = words.find(key);
  return found == words.end() ? 0 : parse_number<std::int64_t>(found->second).value_or(-1);
}

// The numbers of "[0-3]", "7" or "0-3,8".
std::vector<std::int64_t> numbers_in(std::string_view ranges) {
  std::vector<std::int64_t> numbers;
  ranges = trim(ranges, "[]");
  while (!ranges.empty()) {
    std::string_view range = take_until(',', ranges);
    const auto first = parse_number<std::int64_t>(take_until('-', range));
    const auto last = range.empty() ? first : parse_number<std::int64_t>(range);
    for (std::int64_t i = first.value(); i <= last.value(); ++i) numbers.push_back(i);
  }
  return numbers;
}

void check_gpus(const PlannedHost& host, const std::vector<Words>& gres, std::string_view counts) {
  std::map<std::string, std::size_t> of_type;
  std::set<std::int64_t> minors;
  for (const Words& line : gres) {
    if (line.at("NodeName") != host.name) continue;
    const auto files = numbers_in(std::string_view(line.at("File")).substr(11));  // "/dev/nvidia"
    of_type[line.at("Type")] += files.size();
    for (const std::int64_t minor : files) RC_ASSERT(minors.insert(minor).second);
    const auto cores = line.find("Cores");
    if (cores == line.end()) continue;
    const auto& machine = host.inventory.machine;
    for (const std::int64_t core : numbers_in(cores->second)) {
      RC_ASSERT(core < machine.sockets.value() * machine.cores_per_socket.value());
    }
  }
  std::set<std::int64_t> expected;
  for (const protocol::HostGpu& gpu : host.inventory.gpus) {
    if (!*gpu.mig_enabled) expected.insert(*gpu.minor);
  }
  RC_ASSERT(minors == expected);
  std::string text;
  for (const auto& [type, count] : of_type) {
    text += fmt::format("{}gpu:{}:{}", text.empty() ? "" : ",", type, count);
  }
  RC_ASSERT(counts == text);
}

// The value of a line of its own in slurm.conf.
std::int64_t setting_in(const ClusterPlan& plan, std::string_view key) {
  std::string_view text = plan.files.front().text;
  while (!text.empty()) {
    std::string_view line = take_until('\n', text);
    if (take_until('=', line) == key) return parse_number<std::int64_t>(line).value();
  }
  RC_FAIL("no such line");
}

void check_node(const ClusterPlan& plan, const PlannedHost& host, const Words& node) {
  const auto& machine = host.inventory.machine;
  const std::int64_t memory = number_in(node, "RealMemory");
  RC_ASSERT(node.at("NodeName") == host.name);
  RC_ASSERT(number_in(node, "CPUs") == *machine.cpus);
  RC_ASSERT(memory >= 1 && memory <= *machine.memory_mib);
  const auto gpus = static_cast<std::int64_t>(std::ranges::count(
      host.inventory.gpus, std::optional(false), &protocol::HostGpu::mig_enabled));
  if (gpus == 0) return;
  // A job of one GPU for each GPU fits, with the default shares.
  const std::int64_t sockets = number_in(node, "Sockets");
  const std::int64_t threads = sockets > 0 ? number_in(node, "ThreadsPerCore") : 1;
  const std::int64_t cores =
      sockets > 0 ? sockets * number_in(node, "CoresPerSocket") : *machine.cpus;
  const std::int64_t cores_of_job =
      (setting_in(plan, "DefCpuPerGPU") + threads - 1) / threads;  // whole ones
  if (cores >= gpus) RC_ASSERT(cores_of_job * gpus <= cores);
  if (memory >= gpus) RC_ASSERT(setting_in(plan, "DefMemPerGPU") * gpus <= memory);
}

TEST(ClusterPlanProperty, FilesMatchInventories) {
  check_property(fewer_if_sanitized(kPlanCases), [] {
    ClusterSpec spec;
    const int count = *rc::gen::inRange(1, 5);
    for (int i = 0; i < count; ++i) spec.hosts.push_back(any_host(fmt::format("lab{}", i)));
    spec.controller = "lab0";
    spec.accounting = one_of<int>({0, 1}) == 1;
    const ClusterPlan plan = plan_cluster(spec);
    const bool has_gpu = std::ranges::any_of(spec.hosts, [](const PlannedHost& host) {
      return std::ranges::any_of(host.inventory.gpus,
                                 [](const auto& gpu) { return !*gpu.mig_enabled; });
    });
    RC_ASSERT(plan.problems.empty() == has_gpu);
    if (!has_gpu) return;
    const auto nodes = node_lines(plan, "slurm.conf");
    const auto gres = node_lines(plan, "gres.conf");
    RC_ASSERT(nodes.size() == spec.hosts.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      check_node(plan, spec.hosts[i], nodes[i]);
      const auto counts = nodes[i].find("Gres");
      check_gpus(spec.hosts[i], gres, counts == nodes[i].end() ? "" : counts->second);
    }
  });
}

TEST(ClusterPlanProperty, TypesAreUnique) {
  check_property(fewer_if_sanitized(kPlanCases), [] {
    const auto part = rc::gen::elementOf(std::vector<std::string>{
        "NVIDIA", "A100", "a100", "-", " ", "_", "PCIE", "80GB", "RTX", "4090", "\n", "(", ":"});
    const auto model =
        rc::gen::map(rc::gen::nonEmpty(rc::gen::container<std::vector<std::string>>(part)),
                     [](const std::vector<std::string>& parts) {
                       std::string name;
                       for (const std::string& one : parts) name += one;
                       return name;
                     });
    const auto models = *rc::gen::container<std::vector<std::string>>(model);
    std::set<std::string> types;
    for (const auto& [name, type] : gpu_types_of(models)) {
      RC_ASSERT(types.insert(type).second);
      RC_ASSERT(type.front() >= 'a' && type.front() <= 'z');
      RC_ASSERT(type.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-.") == type.npos);
    }
    RC_ASSERT(types.size() == std::set<std::string>(models.begin(), models.end()).size());
  });
}

}  // namespace
}  // namespace gpuyard::cli::slurm
