// What can be queried, by the names of nvidia-smi's --query-gpu and by our own JSON keys. The rows
// of the catalog are the source; spellings that nvidia-smi has beside are in a table of their own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/catalog.h"

namespace gpuyard::cli {

struct Field {
  enum class What {
    row,      // all of a row of the catalog
    element,  // one fan, or one place of a memory error
    word,     // one word of a row of flags
    timestamp,
    index,
    count,
    pci_domain,
    pci_bus,
    pci_device,
  };
  What what = What::row;
  Metric metric{};          // row, element, word
  std::uint16_t of = 0;     // element
  std::int64_t bit = 0;     // word
  std::string name;         // what the header of a CSV says, without its unit
  bool nvidia_smi = false;  // in nvidia-smi's spelling and units
};

// nvidia-smi's unit in brackets, "MiB"; empty: none is printed.
std::string_view unit_of(const Field&);
std::string_view help_of(const Field&);

// Everything there is, nvidia-smi's names before our own. An older or shorter spelling of a field
// is not listed.
std::vector<Field> known_fields();

// By any of its names, whatever its spelling. Errc::invalid names the nearest field.
Result<Field> parse_field(std::string_view name);
Result<std::vector<Field>> parse_fields(const std::vector<std::string>& names);

// Those that the fields are read by.
ProbeSet probes_of_fields(const std::vector<Field>&);

}  // namespace gpuyard::cli
