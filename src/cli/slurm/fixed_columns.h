// Output of `squeue -O` and `sinfo -O` in columns of fixed widths. A text of a user, such as the
// name of a job, may have blanks and line ends in it, but cannot pass for another row.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpuyard::cli::slurm {

struct FixedColumn {
  std::string_view name;  // as -O has it
  std::size_t width;      // bytes
};

struct FixedField {
  std::string text;  // trimmed, without hidden characters
  bool cut = false;  // it fills its column: more may have followed

  // The text, with "..." behind one that is cut.
  std::string marked() const { return cut ? text + "..." : text; }
};

using FixedRow = std::vector<FixedField>;  // a field for each column

struct FixedRows {
  std::vector<FixedRow> rows;
  std::size_t malformed = 0;  // lines that are no row
};

// "JobID:12,Name:64|". The sign ends each line, because blanks at the end of the output get lost.
inline constexpr char kRowEnd = '|';
std::string fixed_format(std::span<const FixedColumn>);
FixedRows parse_fixed(std::span<const FixedColumn>, std::string_view text);

}  // namespace gpuyard::cli::slurm
