#include "cli/slurm/node.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/clock.h"
#include "base/text.h"

namespace gpuyard::cli::slurm {

std::string unhealthy_text(const protocol::SlurmGpu& gpu) {
  return fmt::format("{}{} {}", gpu.why, gpu.why.ends_with('.') ? "" : ".", gpu.advice);
}

namespace {

using Minors = std::vector<std::int64_t>;

bool contains(const Minors& minors, std::int64_t minor) {
  return std::ranges::find(minors, minor) != minors.end();
}

bool is_handed_out(const protocol::SlurmGpu& gpu, const Minors& minors) {
  return minors.empty() || !gpu.minor || contains(minors, *gpu.minor);
}

// The GPUs that Slurm hands out, and the driver does not have.
std::vector<std::string> missing_files(const protocol::SlurmNode& node, const Minors& minors) {
  Minors known;
  for (const protocol::SlurmGpu& gpu : node.gpus) {
    if (!gpu.minor) return {};  // it may be the one
    known.push_back(*gpu.minor);
  }
  std::vector<std::string> files;
  for (const std::int64_t minor : minors) {
    if (minor == kNoGpu || contains(known, minor)) continue;
    files.push_back(fmt::format("/dev/nvidia{}", minor));
  }
  return files;
}

// A sentence for each rule that fires, and how many GPUs are well.
std::vector<std::string> unhealthy_texts(const protocol::SlurmNode& node, const Minors& minors) {
  std::map<std::string, std::vector<const protocol::SlurmGpu*>> sick;
  std::size_t all = 0;
  std::size_t well = 0;
  std::size_t unknown = 0;
  for (const protocol::SlurmGpu& gpu : node.gpus) {
    if (!is_handed_out(gpu, minors)) continue;
    ++all;
    if (gpu.rule) {
      sick[*gpu.rule].push_back(&gpu);
    } else if (gpu.unknown) {
      ++unknown;
    } else {
      ++well;
    }
  }
  std::vector<std::string> texts;
  for (const auto& [rule, gpus] : sick) {
    texts.push_back(unhealthy_text(*gpus.front()));
    std::vector<std::uint32_t> others;
    for (std::size_t i = 1; i < gpus.size(); ++i) others.push_back(gpus[i]->index);
    if (others.empty()) continue;
    texts.back() += fmt::format(" The same applies to GPU {}.", fmt::join(others, ", "));
  }
  if (texts.empty()) return texts;
  const std::string rest = unknown > 0 ? fmt::format(", {} unknown", unknown) : "";
  texts.back() += fmt::format(" ({} of {} GPUs are healthy{})", well, all, rest);
  return texts;
}

}  // namespace

std::string drain_reason(const protocol::SlurmNode& node, const Minors& minors) {
  std::vector<std::string> reasons = unhealthy_texts(node, minors);
  if (node.driver_down && !minors.empty()) {
    reasons.push_back("no driver: " + node.driver_error.value_or("it does not respond"));
  } else if (!node.driver_error) {
    if (const auto files = missing_files(node, minors); !files.empty()) {
      reasons.push_back(
          fmt::format("Slurm allocates {}, which the driver does not have; it has {} GPUs",
                      fmt::join(files, ", "), node.gpus.size()));
    }
  }
  for (const protocol::SlurmJob& job : node.jobs) {
    if (job.left.empty() || job.draining_s.value_or(0) < to_seconds(kExitGrace)) continue;
    reasons.push_back(fmt::format("job {} of {} has ended, but {}", job.job,
                                  job.user.value_or(fmt::format("uid {}", job.uid)), job.left));
  }
  if (reasons.empty()) return "";
  std::string text(kReasonPrefix);
  for (const std::string& one : reasons) {
    if (text.size() > kReasonPrefix.size()) text += text.ends_with('.') ? " " : "; ";
    text += one;
  }
  return printable(text.substr(0, kMaxReasonBytes));
}

NodeAction action_for(const NodeState& now, std::string_view reason, bool refused) {
  const bool ours = now.reason.starts_with(kReasonPrefix);
  if (reason.empty()) {
    return now.is_drained() && ours && !now.is_otherwise_unavailable() ? NodeAction::resume
                                                                       : NodeAction::nothing;
  }
  if (!now.is_drained())
    return now.is_otherwise_unavailable() ? NodeAction::nothing : NodeAction::drain;
  const bool of_our_prolog = refused && now.reason == "Prolog error";
  return of_our_prolog || (ours && now.reason != reason) ? NodeAction::drain : NodeAction::nothing;
}

bool has_own_reason(const NodeState& before, NodeAction step) {
  return step == NodeAction::drain ||
         (before.is_drained() && before.reason.starts_with(kReasonPrefix));
}

}  // namespace gpuyard::cli::slurm
