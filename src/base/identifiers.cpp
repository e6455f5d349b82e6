#include "base/identifiers.h"

#include <unistd.h>

#include <array>
#include <climits>
#include <cstdint>
#include <stdexcept>

#include <fmt/format.h>

namespace gpuyard {

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size()) == 0 ? std::string(name.data()) : "";
}

std::string new_id() {
  std::uint64_t number = 0;
  // std::random_device calls a function that only glibc 2.36 and newer have. This one fails only if
  // the kernel is older than 3.17.
  if (::getentropy(&number, sizeof number) != 0) throw std::runtime_error("no random numbers");
  return fmt::format("{:016x}", number);
}

}  // namespace gpuyard
