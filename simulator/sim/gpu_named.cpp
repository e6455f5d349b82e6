#include "sim/gpu_named.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "sim/pci_address.h"
#include "sim/world_reader.h"

namespace gpuyard::sim {
namespace {

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto parsed = std::from_chars(begin, end, number);
  if (parsed.ec != std::errc{} || parsed.ptr != end || number < 0) return std::nullopt;
  return number;
}

bool has_name(const Identity& identity, std::string_view name) {
  if (name == identity.uuid) return true;
  const auto address = parse_pci_address(name);
  return address && *address == parse_pci_address(pci_address(identity).data());
}

}  // namespace

Result<int> gpu_named(const std::string& directory, std::string_view name) {
  if (name == "all") return kEveryGpu;
  if (const auto index = number_in(name)) return *index;
  const auto world = WorldReader::open(directory);
  if (!world) return world.error();
  const auto driver = world->driver();
  if (!driver) {
    return Error{Errc::unavailable, fmt::format("the keeper of {} (pid {}) is dead or stopped",
                                                directory, world->keeper_pid())};
  }
  const auto gpus = std::min(driver->gpu_count, world->gpu_count());
  for (std::uint32_t index = 0; index < gpus; ++index) {
    const std::uint32_t place = driver->order[index];
    if (place < world->gpu_count() && has_name(world->identity(place), name)) {
      return static_cast<int>(index);
    }
  }
  return Error{
      Errc::not_found,
      fmt::format("the world has no GPU \"{}\"; name one by index, UUID or PCI address", name)};
}

}  // namespace gpuyard::sim
