// Renders nvidia-smi -q, as text or, with -x, as XML. One table has the label and the tag of each
// value, and the drivers that print it.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/smi/smi_report.h"

namespace gpuyard::cli {

// Reads the sections of -d, "MEMORY,POWER", in any case. Errc::invalid names an unknown one.
Result<void> check_smi_sections(const std::string& display);

// `display`: the sections of -d; empty: all.
Printable smi_details_text(const SmiReport&, const std::string& display = "");
Printable smi_details_xml(const SmiReport&);

// Returns the probes of all values.
ProbeSet smi_details_probes();

}  // namespace gpuyard::cli
