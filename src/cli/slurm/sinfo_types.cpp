#include "cli/slurm/sinfo_types.h"

#include <algorithm>

#include "base/text.h"
#include "cli/slurm/controller.h"
#include "cli/slurm/gres.h"

namespace gpuyard::cli::slurm {
namespace {

// "nvidia_h100_nvl" and "NVIDIA H100 NVL" as "nvidiah100nvl"
std::string letters_of(std::string_view text) {
  std::string letters = to_lower(text);
  std::erase_if(letters, [](char c) { return !is_alphanumeric(c); });
  return letters;
}

}  // namespace

std::vector<std::string> parse_gpu_types(std::string_view text) {
  std::vector<std::string> types;
  while (!text.empty()) {
    const auto gpus = parse_gres_list(take_until('\n', text));
    if (!gpus) continue;
    for (const GresGpus& one : *gpus) {
      if (!one.type.empty()) types.push_back(one.type);
    }
  }
  std::ranges::sort(types);
  types.erase(std::ranges::unique(types).begin(), types.end());
  return types;
}

Result<std::vector<std::string>> query_gpu_types() {
  const auto text = query_controller({"sinfo", "-h", "-o", "%G"});
  if (!text) return text.error();
  return parse_gpu_types(*text);
}

std::vector<std::string> types_of_model(const std::vector<std::string>& types,
                                        std::string_view model) {
  const std::string wanted = letters_of(model);
  std::vector<std::string> found;
  if (wanted.empty()) return found;
  for (const std::string& type : types) {
    if (type == model) return {type};
    if (letters_of(type).find(wanted) != std::string::npos) found.push_back(type);
  }
  std::vector<std::string> same;
  std::ranges::copy_if(found, back_inserter(same),
                       [&](const std::string& type) { return letters_of(type) == wanted; });
  return same.empty() ? found : same;
}

}  // namespace gpuyard::cli::slurm
