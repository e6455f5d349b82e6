// The answer to a query in nvidia-smi's CSV, and as a table.
//
// One field of one GPU as nvidia-smi prints it in its CSV. Units, rounding and the words for
// missing values are those of nvidia-smi 580 on an H200.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <boost/json/fwd.hpp>

#include "cli/read/query_fields.h"
#include "cli/screen/screen.h"
#include "faces/protocol/resources.h"

namespace gpuyard::cli {

// The GPUs that the user asked for, and how many GPUs there are.
struct QueryInput {
  protocol::Snapshot snapshot;
  std::size_t gpu_count = snapshot.devices.size();
};

// Returns one cell, also for a missing value: "[N/A]", "[GPU is lost]".
std::string csv_cell(const Field&, const QueryInput&, const protocol::Device&, bool units);

// Returns why the field has no value; null if that is not known.
const Missing* reason_of(const Field&, const protocol::Device&);

// "[N/A]" if this GPU will never tell the value; else the driver's words in brackets.
std::string missing_word(const Missing&);

// Rounds up, as nvidia-smi does.
std::int64_t mebibytes(std::int64_t bytes);

// Spells the address as nvidia-smi does: "00000000:1A:00.0".
std::string long_pci_address(std::string_view);

// Returns all readings of a device, as its JSON has them.
boost::json::object readings_as_json(const protocol::Device&);

struct CsvStyle {
  bool header = true;
  bool units = true;
};

Printable query_csv(const std::vector<Field>&, const QueryInput&, CsvStyle);

Printable field_table(const std::vector<Field>&, const QueryInput&, const Screen&);

}  // namespace gpuyard::cli
