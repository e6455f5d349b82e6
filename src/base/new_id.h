// Names for things that people and programs refer to later.
#pragma once

#include <random>
#include <string>

#include <fmt/format.h>

namespace gpuyard {

// Nobody meets another's by chance, also not in the books of another state directory.
inline std::string new_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace gpuyard
