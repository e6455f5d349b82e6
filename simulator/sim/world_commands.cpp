#include "sim/world_commands.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "base/record.h"
#include "base/text.h"
#include "sim/apply_setting.h"
#include "sim/pci_address.h"
#include "sim/scenario_table.h"
#include "sim/world_reader.h"

namespace gpuyard::sim {
namespace {

constexpr double kMaxExtraHeat = 100.0;

Result<void> set_heat(double& heat, double degrees) {
  if (!(degrees >= 0.0 && degrees <= kMaxExtraHeat)) {
    return Error{Errc::invalid, "extra heat must be 0 to 100 degrees"};
  }
  heat = degrees;
  return {};
}

Result<void> set_memory_heat(Gpu& gpu, double degrees) {
  if (!gpu.model->has_memory_temperature) {
    return Error{Errc::unsupported,
                 fmt::format("{} has no memory temperature sensor", gpu.model->name)};
  }
  return set_heat(gpu.extra_memory_heat, degrees);
}

bool has_name(const Identity& identity, std::string_view name) {
  if (name == identity.uuid) return true;
  const auto address = parse_pci_address(name);
  return address && *address == parse_pci_address(pci_address(identity).data());
}

// Initialises a GPU as a loading driver does: all settings return to their defaults, except those
// that the board stores.
void restart_with_driver(Gpu& gpu) {
  restart(gpu);
  gpu.settings.persistence_mode = 0;
  gpu.settings.compute_mode = 0;
}

constexpr std::uint32_t kMaxRemappedRows = 512;
constexpr std::uint32_t kMaxRetiredPages = 64;

// Remaps rows. Each takes a spare row from a bank of its own; without a spare row the remapping
// fails.
void remap_rows(RowRemapping& rows, std::uint32_t count) {
  const std::uint32_t free_rows = kMaxRemappedRows - rows.uncorrected_rows;
  const std::uint32_t done = std::min(count, free_rows);
  rows.uncorrected_rows += done;
  const std::uint32_t banks = std::min(done, rows.banks_max);
  rows.banks_max -= banks;
  rows.banks_high += banks;
  if (done > 0) rows.pending = 1;
  if (done < count) rows.failed = 1;
}

void repair(Gpu& gpu, std::uint32_t count) {
  MemoryHealth& memory = gpu.memory;
  switch (gpu.model->memory_repair) {
    case MemoryRepair::remapped_rows:
      return remap_rows(memory.rows, count);
    case MemoryRepair::retired_pages:
      memory.retired_pages_double_bit =
          std::min(kMaxRetiredPages, memory.retired_pages_double_bit + count);
      memory.retired_pages_pending = 1;
      return;
    case MemoryRepair::none:
      return;
  }
}

}  // namespace

Command load_command(int gpu, const Workload& load) {
  Command command;
  command.verb = Verb::set_load;
  command.gpu = static_cast<std::uint32_t>(gpu);
  command.workload_kind = load.kind;
  command.load = load.load;
  command.vram_bytes = load.vram_bytes;
  command.period_ms = static_cast<std::uint64_t>(load.period.count());
  command.leaked_bytes_per_s = load.leaked_bytes_per_s;
  return command;
}

Result<void> set_load(Gpu& gpu, const Command& command, std::chrono::milliseconds now) {
  const bool known = command.workload_kind <= WorkloadKind::waiting;
  const bool in_range = command.load >= 0.0 && command.load <= 1.0;
  const std::chrono::milliseconds max_time = kMaxSimulatedTime;
  if (!known || !in_range || command.period_ms > static_cast<std::uint64_t>(max_time.count())) {
    return Error{Errc::invalid, "not a workload"};
  }
  gpu.workload = {.kind = command.workload_kind,
                  .load = command.load,
                  .vram_bytes = command.vram_bytes,
                  .period = std::chrono::milliseconds(command.period_ms),
                  .leaked_bytes_per_s = command.leaked_bytes_per_s,
                  .since = now};
  return {};
}

void number_calls(Fault& fault, std::uint64_t& made) {
  for (CallFault& call : fault.calls) {
    if (call.call != Call::none) call.number = ++made;
  }
}

// Faults of the driver's own calls are refused: they concern all GPUs.
Result<void> inject(Gpu& gpu, Fault fault, std::uint64_t& made) {
  if (auto plausible = check_fault(fault); !plausible) return plausible;
  if (auto possible = check_fault_on(*gpu.model, fault); !possible) return possible;
  if (std::ranges::find(fault.calls, Call::driver, &CallFault::call) != fault.calls.end()) {
    return Error{Errc::invalid, "calls of the driver itself fail for all GPUs; use --gpu all"};
  }
  number_calls(fault, made);
  return add_fault(gpu.fault, fault);
}

Result<void> change_gpu(Gpu& gpu, const Command& command) {
  switch (command.verb) {
    case Verb::clear_faults:
      gpu.fault = {};
      return {};
    case Verb::set_heat:
      return set_heat(gpu.extra_heat, command.load);
    case Verb::set_memory_heat:
      return set_memory_heat(gpu, command.load);
    default:
      return Error{Errc::invalid, "unknown command"};
  }
}

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

Result<void> check_driver_version(std::string_view version) {
  const bool plausible =
      !version.empty() && version.size() <= kMaxVersionLength &&
      std::ranges::all_of(version, [](unsigned char c) { return std::isdigit(c) || c == '.'; }) &&
      std::isdigit(static_cast<unsigned char>(version.front()));
  if (plausible) return {};
  return Error{Errc::invalid,
               fmt::format("\"{}\" is not a driver version such as {}", version, kDefaultDriver)};
}

Result<void> unload_driver(World& world) {
  if (!world.driver.loaded) return Error{Errc::conflict, "the driver is not loaded"};
  world.driver.loaded = false;
  for (Gpu& gpu : world.gpus) gpu.processes = {};
  return {};
}

Result<void> load_driver(World& world, const std::string& version) {
  if (world.driver.loaded) return Error{Errc::conflict, "the driver is already loaded"};
  if (!version.empty()) {
    if (auto good = check_driver_version(version); !good) return good;
    world.driver.version = version;
  }
  for (Gpu& gpu : world.gpus) restart_with_driver(gpu);
  ++world.driver.session;
  world.driver.loaded = true;
  world.driver.load_due_at.reset();
  return {};
}

Result<void> reload_driver(World& world, std::chrono::milliseconds away,
                           const std::string& version) {
  if (away < std::chrono::milliseconds{0} || away > kMaxReloadTime) {
    return Error{Errc::invalid, "the driver can be unloaded for up to an hour"};
  }
  if (!version.empty()) {
    if (auto good = check_driver_version(version); !good) return good;
  }
  if (auto done = unload_driver(world); !done) return done;
  world.driver.load_due_at = world.elapsed + away;
  world.driver.next_version = version;
  load_due_driver(world);
  return {};
}

void load_due_driver(World& world) {
  if (!world.driver.load_due_at || world.elapsed < *world.driver.load_due_at) return;
  static_cast<void>(load_driver(world, world.driver.next_version).ok());
}

void unplug(World& world, std::uint32_t place) {
  std::erase(world.order, place);
  Gpu& gpu = world.gpus[place];
  gpu.plugged = false;
  gpu.processes = {};
}

Result<void> plug(World& world, std::string_view uuid, std::optional<std::uint32_t> index) {
  if (index && *index > world.order.size()) {
    return Error{Errc::invalid,
                 fmt::format("the index must be 0 to {}, not {}", world.order.size(), *index)};
  }
  std::optional<std::uint32_t> found;
  for (std::uint32_t place = 0; place < world.gpus.size(); ++place) {
    const Gpu& gpu = world.gpus[place];
    if (gpu.plugged || !std::string_view(gpu.identity.uuid).starts_with(uuid)) continue;
    if (found) return Error{Errc::not_found, "several GPUs are unplugged; select one with --uuid"};
    found = place;
  }
  if (!found) return Error{Errc::not_found, "no such GPU is unplugged"};
  const auto usual = std::ranges::upper_bound(world.order, *found);
  world.order.insert(index ? world.order.begin() + *index : usual, *found);
  Gpu& gpu = world.gpus[*found];
  gpu.plugged = true;
  ++gpu.plug_count;
  gpu.fault.lost = gpu.fault.reset_required = 0;
  restart_with_driver(gpu);
  return {};
}

std::optional<EccLocation> ecc_location_from_name(std::string_view name) {
  return enum_from_name<EccLocation>(name);
}

Result<void> add_memory_errors(Gpu& gpu, const MemoryErrors& errors) {
  const auto place = static_cast<std::size_t>(errors.location);
  if (place >= kEccLocations || errors.count < 1 || errors.count > kMaxErrorsPerCommand) {
    return Error{Errc::invalid, "invalid memory errors"};
  }
  if (!gpu.model->has_ecc) {
    return Error{Errc::unsupported, std::string(gpu.model->name) + " has no ECC memory"};
  }
  if (gpu.settings.ecc_mode == 0) return Error{Errc::conflict, "ECC is off on this GPU"};
  MemoryHealth& memory = gpu.memory;
  (errors.uncorrected ? memory.volatile_uncorrected : memory.volatile_corrected)[place] +=
      errors.count;
  (errors.uncorrected ? memory.aggregate_uncorrected : memory.aggregate_corrected)[place] +=
      errors.count;
  if (errors.uncorrected && errors.location == EccLocation::device_memory) {
    repair(gpu, errors.count);
  }
  return {};
}

}  // namespace gpuyard::sim
