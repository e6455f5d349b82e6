#include "cli/slurm/node.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"

namespace gpuyard::cli::slurm {
namespace {

// The GPUs that Slurm hands out, and the driver does not have. With MIG the devices are others.
std::vector<std::string> missing_files(const protocol::SlurmNode& node,
                                       const std::vector<std::int64_t>& minors) {
  std::vector<std::string> files;
  for (const std::int64_t minor : minors) {
    if (std::ranges::find(node.gpus, minor, &protocol::SlurmGpu::minor) != node.gpus.end())
      continue;
    files.push_back(fmt::format("/dev/nvidia{}", minor));
  }
  return files;
}

std::string share_text(const protocol::SlurmNode& node) {
  const auto well = std::ranges::count_if(node.gpus, [](const auto& gpu) { return !gpu.rule; });
  return fmt::format(" ({} of {} GPUs are well)", well, node.gpus.size());
}

}  // namespace

std::string sick_text(const protocol::SlurmGpu& gpu) {
  return fmt::format("{}{} {}", gpu.why, gpu.why.ends_with('.') ? "" : ".", gpu.advice);
}

std::string reason_for(const protocol::SlurmNode& node, const std::vector<std::int64_t>& minors) {
  std::vector<std::string> reasons;
  for (const protocol::SlurmGpu& gpu : node.gpus) {
    if (gpu.rule) reasons.push_back(sick_text(gpu));
  }
  if (!reasons.empty()) reasons.back() += share_text(node);
  if (node.driver_down) {
    reasons.push_back("no driver: " + node.driver_error.value_or("it does not answer"));
  } else if (!node.driver_error) {
    if (const auto files = missing_files(node, minors); !files.empty()) {
      reasons.push_back(
          fmt::format("Slurm hands out {}, for which the driver has no GPU; it has {}",
                      fmt::join(files, ", "), node.gpus.size()));
    }
  }
  for (const protocol::SlurmJob& job : node.jobs) {
    if (job.left.empty()) continue;
    reasons.push_back(fmt::format("job {} of {} is over, and {}", job.job,
                                  job.user.value_or(fmt::format("uid {}", job.uid)), job.left));
  }
  if (reasons.empty()) return "";
  std::string text(kOurs);
  for (const std::string& one : reasons) {
    if (text.size() > kOurs.size()) text += text.ends_with('.') ? " " : "; ";
    text += one;
  }
  return printable(text.substr(0, kLongestReason));
}

Step step_for(const NodeState& now, std::string_view reason) {
  const bool ours = now.reason.starts_with(kOurs);
  if (reason.empty()) return now.drained() && ours ? Step::resume : Step::nothing;
  if (now.state.starts_with("down") && !ours) return Step::nothing;
  if (!now.drained()) return Step::drain;
  // Slurm writes these itself, when a hook of ours has failed for the same GPU.
  const bool of_slurm = now.reason == "Prolog error" || now.reason == "Epilog error";
  return of_slurm || (ours && now.reason != reason) ? Step::drain : Step::nothing;
}

}  // namespace gpuyard::cli::slurm
