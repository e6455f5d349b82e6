// The answer to a query in nvidia-smi's CSV, and as a table for people.
#pragma once

#include <string>
#include <vector>

#include "cli/read/query_cell.h"
#include "cli/screen/screen.h"

namespace gpuyard::cli {

struct CsvStyle {
  bool header = true;
  bool units = true;
};

std::string query_csv(const std::vector<Field>&, const Queried&, CsvStyle);

std::string field_table(const std::vector<Field>&, const Queried&, const Screen&);

}  // namespace gpuyard::cli
