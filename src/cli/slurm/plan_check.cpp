#include "cli/slurm/plan_check.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "cli/slurm/controller.h"
#include "cli/slurm/gpu_types.h"

namespace gpuyard::cli::slurm {
namespace {

// The words "Key=value" of a line, in order. Slurm's keys have no case.
struct ConfWord {
  std::string key;
  std::string value;
};
using ConfLine = std::vector<ConfWord>;

ConfLine parse_conf_line(std::string_view line) {
  ConfLine words;
  while (!line.empty()) {
    std::string_view word = trim(take_until(' ', line));
    if (word.empty()) continue;
    const std::string key(take_until('=', word));
    words.push_back({key, std::string(word)});
  }
  return words;
}

std::string text_of_line(const ConfLine& line) {
  std::vector<std::string> words;
  for (const ConfWord& word : line) words.push_back(fmt::format("{}={}", word.key, word.value));
  return fmt::format("{}", fmt::join(words, " "));
}

const std::string* find_value(const ConfLine& line, std::string_view key) {
  const auto found = std::ranges::find_if(
      line, [&](const ConfWord& word) { return equals_ignoring_case(word.key, key); });
  return found == line.end() ? nullptr : &found->value;
}

std::optional<std::int64_t> number_of(const ConfLine& line, std::string_view key) {
  const std::string* const value = find_value(line, key);
  return value == nullptr ? std::nullopt : parse_number<std::int64_t>(*value);
}

// The line of slurm.conf about this machine.
std::optional<ConfLine> find_node_line(std::string_view text, const std::string& name) {
  while (!text.empty()) {
    ConfLine line = parse_conf_line(trim(take_until('\n', text)));
    if (line.empty() || !equals_ignoring_case(line.front().key, "NodeName")) continue;
    if (equals_ignoring_case(line.front().value, name)) return line;
  }
  return std::nullopt;
}

// A GPU as gres.conf has it.
struct GresGpu {
  std::string type;
  std::string cores;
};

std::map<std::int64_t, GresGpu> parse_gres(std::string_view text) {
  std::map<std::int64_t, GresGpu> found;
  while (!text.empty()) {
    const std::string_view whole = take_until('\n', text);
    const std::size_t begin = whole.find("Gres Name=gpu ");
    if (begin == whole.npos) continue;
    const ConfLine line = parse_conf_line(whole.substr(begin));
    const auto value = [&](std::string_view key) {
      const std::string* const one = find_value(line, key);
      return one == nullptr ? std::string() : *one;
    };
    for (const std::int64_t minor : parse_minors(whole)) {
      if (minor != kNoGpu) found[minor] = {value("Type"), value("Cores")};
    }
  }
  return found;
}

// The types of the models that gres.conf has, and types for the others.
GpuTypes types_of(const PlannedNode& node, const std::map<std::int64_t, GresGpu>& gres) {
  GpuTypes types;
  std::vector<std::string> models;
  for (const PlannedGpu& gpu : node.gpus) {
    models.push_back(gpu.model);
    const auto known = gres.find(gpu.minor);
    if (known != gres.end() && !known->second.type.empty()) {
      types.emplace(gpu.model, known->second.type);
    }
  }
  types.merge(gpu_types_of(models));
  return types;
}

std::string gres_line(const PlannedNode& node, const PlannedGpu& gpu, const std::string& type) {
  return fmt::format("NodeName={} Name=gpu Type={} File=/dev/nvidia{}{}", node.name, type,
                     gpu.minor, gpu.cores.empty() ? "" : " Cores=" + gpu.cores);
}

std::vector<Difference> gpu_differences(const PlannedHost& host, const PlannedNode& node,
                                        const std::map<std::int64_t, GresGpu>& gres,
                                        const GpuTypes& types) {
  std::vector<Difference> found;
  const auto add = [&](std::string problem, std::string line) {
    found.push_back({"gres.conf", std::move(problem), std::move(line)});
  };
  for (const PlannedGpu& gpu : node.gpus) {
    const std::string& type = types.at(gpu.model);
    const auto known = gres.find(gpu.minor);
    if (known == gres.end()) {
      add(fmt::format("/dev/nvidia{} is missing", gpu.minor), gres_line(node, gpu, type));
      continue;
    }
    if (known->second.type != type) {
      add(fmt::format("/dev/nvidia{} is Type={}, but another {} is Type={}", gpu.minor,
                      known->second.type, gpu.model, type),
          gres_line(node, gpu, type));
    } else if (known->second.cores != gpu.cores) {
      const auto spoken = [](const std::string& cores) {
        return cores.empty() ? "no Cores=" : "Cores=" + cores;
      };
      add(fmt::format("/dev/nvidia{} has {}, but the driver and the kernel report {}", gpu.minor,
                      spoken(known->second.cores), spoken(gpu.cores)),
          gres_line(node, gpu, type));
    }
  }
  for (const auto& [minor, gpu] : gres) {
    if (std::ranges::find(node.gpus, minor, &PlannedGpu::minor) != node.gpus.end()) continue;
    const bool mig = std::ranges::any_of(host.inventory.gpus, [&, number = minor](const auto& one) {
      return one.minor == number && one.mig_enabled.value_or(false);
    });
    add(fmt::format("/dev/nvidia{} {}", minor,
                    mig ? "is a GPU in MIG mode" : "has no GPU in the driver"),
        "");
  }
  return found;
}

std::vector<std::string> sorted_words(std::string_view list) {
  std::vector<std::string> words;
  while (!list.empty()) words.emplace_back(take_until(',', list));
  std::ranges::sort(words);
  return words;
}

std::optional<Difference> node_difference(const PlannedNode& node, const ConfLine& line,
                                          const ConfLine& hardware, const GpuTypes& types) {
  constexpr std::pair<std::string_view, std::string_view> kCounts[] = {
      {"CPUs", "CPUs"},
      {"Sockets", "SocketsPerBoard"},
      {"SocketsPerBoard", "SocketsPerBoard"},
      {"CoresPerSocket", "CoresPerSocket"},
      {"ThreadsPerCore", "ThreadsPerCore"}};
  ConfLine right = line;
  std::vector<std::string> problems;
  const auto correct = [&](std::string_view key, const std::string& value, std::string problem) {
    problems.push_back(std::move(problem));
    const auto word = std::ranges::find_if(
        right, [&](const ConfWord& one) { return equals_ignoring_case(one.key, key); });
    if (word == right.end()) {
      right.push_back({std::string(key), value});
    } else {
      word->value = value;
    }
  };
  for (const auto& [key, found_key] : kCounts) {
    const auto here = number_of(line, key);
    const auto found = number_of(hardware, found_key);
    if (!here || !found || *here == *found) continue;
    correct(key, std::to_string(*found),
            fmt::format("{}={}, but slurmd finds {}", key, *here, *found));
  }
  const auto memory = number_of(line, "RealMemory");
  const auto found_memory = number_of(hardware, "RealMemory");
  if (memory && found_memory && *memory > *found_memory) {
    correct("RealMemory", std::to_string(std::min(node.memory_mib, *found_memory)),
            fmt::format("RealMemory={}, but slurmd finds {}", *memory, *found_memory));
  }
  const std::string counts = gres_of(node, types);
  const std::string* const gres = find_value(line, "Gres");
  const std::string here = gres == nullptr ? "" : *gres;
  if (sorted_words(here) != sorted_words(counts)) {
    correct("Gres", counts,
            fmt::format("Gres={}, but the driver has {}", here, counts.empty() ? "none" : counts));
  }
  if (problems.empty()) return std::nullopt;
  if (counts.empty())
    std::erase_if(right, [](const ConfWord& one) { return equals_ignoring_case(one.key, "Gres"); });
  return Difference{"slurm.conf", fmt::format("{}", fmt::join(problems, "; ")),
                    text_of_line(right)};
}

}  // namespace

std::vector<Difference> differences_of(const PlannedHost& host, std::string_view slurm_conf,
                                       const SlurmdReport& slurmd) {
  const PlannedNode node = node_of(host);
  const auto line = find_node_line(slurm_conf, node.name);
  if (!line) {
    return {{"slurm.conf", fmt::format("it has no line NodeName={}", node.name),
             std::string(trim(slurmd.hardware.substr(0, slurmd.hardware.find('\n'))))}};
  }
  const auto gres = parse_gres(slurmd.gpus);
  const auto types = types_of(node, gres);
  const auto hardware = find_node_line(slurmd.hardware, node.name).value_or(ConfLine());
  std::vector<Difference> found = gpu_differences(host, node, gres, types);
  if (auto one = node_difference(node, *line, hardware, types)) {
    found.insert(found.begin(), *std::move(one));
  }
  return found;
}

}  // namespace gpuyard::cli::slurm
