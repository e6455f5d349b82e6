#include "cli/slurm/fixed_columns.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"

namespace gpuyard::cli::slurm {
namespace {

FixedRow fixed_row(std::span<const FixedColumn> columns, std::string_view line) {
  FixedRow row;
  for (const FixedColumn& column : columns) {
    const std::string_view field = line.substr(0, column.width);
    row.push_back({printable(trim(field)), field.back() != ' '});
    line.remove_prefix(column.width);
  }
  return row;
}

}  // namespace

std::string fixed_format(std::span<const FixedColumn> columns) {
  std::string format;
  for (const FixedColumn& column : columns) {
    format += fmt::format("{}{}:{}", format.empty() ? "" : ",", column.name, column.width);
  }
  return format + kRowEnd;
}

FixedRows parse_fixed(std::span<const FixedColumn> columns, std::string_view text) {
  std::size_t width = 0;
  for (const FixedColumn& column : columns) width += column.width;
  FixedRows found;
  while (!text.empty()) {
    const bool is_row = text.size() > width && text[width] == kRowEnd &&
                        (text.size() == width + 1 || text[width + 1] == '\n');
    if (is_row) {
      found.rows.push_back(fixed_row(columns, text.substr(0, width)));
      text.remove_prefix(std::min(width + 2, text.size()));
    } else if (!trim(take_until('\n', text)).empty()) {
      ++found.malformed;
    }
  }
  return found;
}

}  // namespace gpuyard::cli::slurm
