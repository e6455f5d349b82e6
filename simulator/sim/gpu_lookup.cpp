#include "sim/gpu_lookup.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "base/text.h"
#include "sim/pci_address.h"
#include "sim/world_reader.h"

namespace gpuyard::sim {
namespace {

bool has_name(const Identity& identity, std::string_view name) {
  if (name == identity.uuid) return true;
  const auto address = parse_pci_address(name);
  return address && *address == parse_pci_address(pci_address(identity).data());
}

}  // namespace

Result<int> find_gpu_index(const std::string& directory, std::string_view name) {
  if (name == "all") return kEveryGpu;
  if (const auto index = parse_number<int>(name); index && *index >= 0) return *index;
  const auto world = WorldReader::open(directory);
  if (!world) return world.error();
  const auto driver = world->driver();
  if (!driver) {
    return Error{Errc::unavailable,
                 fmt::format("the simulator process of {} (PID {}) is dead or stopped", directory,
                             world->server_pid())};
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
      fmt::format("the simulated world has no GPU \"{}\"; use an index, UUID or PCI address",
                  name)};
}

}  // namespace gpuyard::sim
