#include "sim/setters_for.h"

#include <algorithm>
#include <array>

namespace gpuyard::sim {
namespace {

constexpr std::array<std::string_view, 4> kSettersNames{"owner", "everyone", "root", "nobody"};
static_assert(kSettersNames.size() == static_cast<std::size_t>(SettersFor::nobody) + 1);

}  // namespace

std::string_view name_of(SettersFor setters) {
  const auto index = static_cast<std::size_t>(setters);
  return index < kSettersNames.size() ? kSettersNames[index] : "unknown";
}

std::optional<SettersFor> setters_from_name(std::string_view name) {
  const auto at = std::ranges::find(kSettersNames, name);
  if (at == kSettersNames.end()) return std::nullopt;
  return static_cast<SettersFor>(at - kSettersNames.begin());
}

std::vector<std::string_view> setters_names() {
  return {kSettersNames.begin(), kSettersNames.end()};
}

}  // namespace gpuyard::sim
