#include "sim/memory_errors.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/record.h"
#include "sim/scenario_table.h"

namespace gpuyard::sim {
namespace {

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
