// The fields of a query, by the names of nvidia-smi's --query-gpu and by our own JSON keys. They
// come from the rows of the catalog; all names of nvidia-smi are in smi_fields.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gpu/device/catalog.h"

namespace gpuyard::cli {

struct Field {
  enum class ValueKind {
    row,      // all of a row of the catalog
    element,  // one fan, or one place of a memory error
    word,     // one word of a row of flags
    timestamp,
    index,
    count,
    pci_domain,
    pci_bus,
    pci_device,
    unmeasured,  // a field of nvidia-smi that the catalog does not have
  };
  ValueKind what = ValueKind::row;
  Metric metric{};          // row, element, word
  std::uint16_t of = 0;     // element
  std::int64_t bit = 0;     // word
  std::string name;         // the heading in CSV, without the unit
  bool nvidia_smi = false;  // in nvidia-smi's spelling and units
};

// Returns nvidia-smi's unit for the brackets, "MiB"; empty if nvidia-smi prints none.
std::string_view unit_of(const Field&);
std::string_view help_of(const Field&);

// Returns every field, nvidia-smi's names before our own, also those that are not measured. An
// older or shorter spelling is not listed.
std::vector<Field> known_fields();

// Finds a field by any name, in any spelling. Errc::invalid names the nearest field.
Result<Field> parse_field(std::string_view name);
Result<std::vector<Field>> parse_fields(const std::vector<std::string>& names);

// Returns the probes that read the fields.
ProbeSet probes_of_fields(const std::vector<Field>&);

}  // namespace gpuyard::cli
