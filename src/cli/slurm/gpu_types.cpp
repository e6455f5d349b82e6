#include "cli/slurm/gpu_types.h"

#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "base/text.h"

namespace gpuyard::cli::slurm {
namespace {

// Slurm takes "gpu:4090" for a number of GPUs.
std::string with_first_letter(std::string word) {
  return word.empty() || !is_letter(word.front()) ? "gpu_" + word : word;
}

// "nvidia_a100-sxm4-80gb", as Slurm's own detection writes it.
std::string normalised(std::string_view model) {
  std::string word = to_lower(model);
  for (char& c : word) {
    if (!is_alphanumeric(c) && c != '-' && c != '.') c = '_';
  }
  return word;
}

// "a100-sxm4-80gb": the whole name without the vendor.
std::string long_word(std::string_view model) {
  constexpr std::string_view kVendor = "nvidia_";
  const std::string whole = normalised(model);
  const bool vendor = whole.starts_with(kVendor);
  return with_first_letter(vendor ? whole.substr(kVendor.size()) : whole);
}

// "h100", "rtx_4090": the first part with a digit, with the parts of the series before it.
std::string short_word(std::string_view model) {
  constexpr std::string_view kSeries[] = {"rtx", "gtx", "titan"};
  std::string whole = long_word(model);
  std::string_view rest = whole;
  std::string series;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find_first_of("_-"), rest.size());
    const std::string_view part = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (std::ranges::any_of(part, &is_digit)) return with_first_letter(series + std::string(part));
    series.clear();
    if (std::ranges::find(kSeries, part) != std::end(kSeries)) series = fmt::format("{}_", part);
  }
  return whole;
}

}  // namespace

GpuTypes gpu_types_of(const std::vector<std::string>& models) {
  const std::set<std::string> distinct(models.begin(), models.end());
  std::map<std::string, int> uses;
  for (const std::string& model : distinct) ++uses[short_word(model)];
  GpuTypes types;
  std::set<std::string> taken;
  // The short words first: a longer one must not take them.
  for (const std::string& model : distinct) {
    const std::string word = short_word(model);
    if (uses[word] > 1) continue;
    taken.insert(word);
    types.emplace(model, word);
  }
  for (const std::string& model : distinct) {
    if (types.contains(model)) continue;
    std::string word = long_word(model);
    for (int number = 2; !taken.insert(word).second; ++number) {
      word = fmt::format("{}_{}", long_word(model), number);
    }
    types.emplace(model, word);
  }
  return types;
}

}  // namespace gpuyard::cli::slurm
