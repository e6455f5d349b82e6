#include "cli/slurm/sinfo_types.h"

#include <algorithm>

#include "base/text.h"
#include "cli/slurm/controller.h"

namespace gpuyard::cli::slurm {
namespace {

// "nvidia_h100_nvl" and "NVIDIA H100 NVL" as "nvidiah100nvl"
std::string letters_of(std::string_view text) {
  std::string letters;
  for (const char c : to_lower(text)) {
    const bool kept = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (kept) letters += c;
  }
  return letters;
}

// "h100" of "gpu:h100:8(S:0-1)"; "": it has no type, or is no GPU.
std::string_view type_of_gres(std::string_view gres) {
  constexpr std::string_view kGpu = "gpu:";
  gres = trim(gres.substr(0, gres.find('(')));
  if (!gres.starts_with(kGpu)) return "";
  gres.remove_prefix(kGpu.size());
  const std::size_t colon = gres.find(':');
  return colon == gres.npos ? "" : gres.substr(0, colon);
}

}  // namespace

std::vector<std::string> parse_gpu_types(std::string_view text) {
  std::vector<std::string> types;
  int depth = 0;  // of brackets, in which commas separate sockets
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : '\n';
    if (c == '\n') depth = 0;
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c != '\n' && (c != ',' || depth > 0)) continue;
    if (const auto type = type_of_gres(text.substr(begin, i - begin)); !type.empty()) {
      types.emplace_back(type);
    }
    begin = i + 1;
  }
  std::ranges::sort(types);
  types.erase(std::ranges::unique(types).begin(), types.end());
  return types;
}

Result<std::vector<std::string>> query_gpu_types() {
  const auto text = run_slurm_command({"sinfo", "-h", "-o", "%G"});
  if (!text) {
    return Error{text.error().code, "Slurm's controller is not responding", text.error().message,
                 "scontrol ping"};
  }
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
