#include "sim/visible_devices.h"

#include <algorithm>
#include <cerrno>
#include <optional>

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"

namespace gpuyard::sim {
namespace {

constexpr std::size_t kMaxEnvironmentBytes = std::size_t{4} << 20;
constexpr std::string_view kVariable = "CUDA_VISIBLE_DEVICES=";

std::optional<int> by_uuid(std::string_view beginning, std::span<const std::string> uuids) {
  std::optional<int> found;
  for (std::size_t i = 0; i < uuids.size(); ++i) {
    if (!uuids[i].starts_with(beginning)) continue;
    if (found) return std::nullopt;  // ambiguous
    found = static_cast<int>(i);
  }
  return found;
}

std::optional<int> find_visible_gpu(std::string_view name, std::span<const std::string> uuids) {
  if (name.starts_with("GPU-")) return by_uuid(name, uuids);
  const auto index = parse_number<int>(name);
  const bool known = index && *index >= 0 && static_cast<std::size_t>(*index) < uuids.size();
  return known ? index : std::nullopt;
}

}  // namespace

std::vector<int> visible_devices(std::string_view variable, std::span<const std::string> uuids) {
  std::vector<int> visible;
  while (!variable.empty()) {
    const auto gpu = find_visible_gpu(trim(take_until(',', variable), " "), uuids);
    if (!gpu) return visible;
    if (std::ranges::find(visible, *gpu) != visible.end()) return {};
    visible.push_back(*gpu);
  }
  return visible;
}

Result<std::string> cuda_visible_devices_of(pid_t pid) {
  const std::string path = fmt::format("/proc/{}/environ", pid);
  auto environment = read_file(path, kMaxEnvironmentBytes);
  if (!environment && environment.error().code == Errc::not_found) {
    return Error{Errc::not_found, fmt::format("process {} not found", pid)};
  }
  if (!environment) return std::move(environment).error();
  std::string_view rest = *environment;
  while (!rest.empty()) {
    const std::string_view entry = take_until('\0', rest);
    if (entry.starts_with(kVariable)) return std::string(entry.substr(kVariable.size()));
  }
  return Error{
      Errc::not_found,
      fmt::format("process {} was started without CUDA_VISIBLE_DEVICES; use --gpu N", pid)};
}

}  // namespace gpuyard::sim
