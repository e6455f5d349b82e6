// The names of nvidia-smi's --query-gpu: those of its drivers 535 to 590, in the order of its
// --help-query-gpu. The values are in query_fields.h.
#pragma once

#include <span>
#include <string_view>

namespace gpuyard::cli {

struct SmiField {
  std::string_view name;
  std::string_view alias = {};  // a second name that nvidia-smi takes; empty: none
  std::string_view unit = {};   // in the header, for a field that the catalog does not have
};

std::span<const SmiField> smi_fields();

// Finds a field by its name; nullptr: nvidia-smi has none of that name.
const SmiField* find_smi_field(std::string_view name);

// Returns the name that nvidia-smi's header has for a name or a second name. An unknown name is
// returned as it is.
std::string_view smi_header_name(std::string_view name);

}  // namespace gpuyard::cli
