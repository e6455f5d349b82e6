// Who may call NVML's setters; the kernel says who calls.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace gpuyard::sim {

// New ones go to the end: the number is in the shared layout.
enum class SettersFor : std::uint32_t {
  owner,     // root and the keeper's user
  everyone,  // and nobody asks who
  root,      // as of a real driver
  nobody,    // as of one for a program that lacks the privilege, whoever runs it
};

std::string_view name_of(SettersFor);
std::optional<SettersFor> setters_from_name(std::string_view);
std::vector<std::string_view> setters_names();

}  // namespace gpuyard::sim
