// The answer to a query in nvidia-smi's CSV, and as a table for people.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <boost/json/fwd.hpp>

#include "cli/read/query_fields.h"
#include "cli/screen/terminal.h"
#include "protocol/resources.h"

namespace gpuyard::cli {

// One field of one GPU as nvidia-smi prints it in its CSV. Units, rounding and the words for what
// is missing are those that nvidia-smi 580 prints on an H200.

// The GPUs that were asked for, and how many there are.
struct Queried {
  protocol::Snapshot snapshot;
  std::size_t gpu_count = snapshot.devices.size();
};

// One cell, also for what is missing: "[N/A]", "[GPU is lost]".
std::string csv_cell(const Field&, const Queried&, const protocol::Device&, bool units);

// Why the field has no value; empty where nothing is known of it.
std::string reason_of(const Field&, const protocol::Device&);

// "[N/A]" for what this GPU will never tell, else the driver's words in brackets.
std::string missing_word(std::string_view reason);

// Rounded up, as nvidia-smi does.
std::int64_t mebibytes(std::int64_t bytes);

// The address as nvidia-smi spells it: "00000000:1A:00.0".
std::string long_pci_address(std::string_view);

// The readings of a device as its JSON has them, to take a few out.
boost::json::object readings_as_json(const protocol::Device&);

struct CsvStyle {
  bool header = true;
  bool units = true;
};

std::string query_csv(const std::vector<Field>&, const Queried&, CsvStyle);

std::string field_table(const std::vector<Field>&, const Queried&, const Screen&);

}  // namespace gpuyard::cli
