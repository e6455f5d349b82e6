// Lines as `squeue -O` and `sinfo -O` print them.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/text.h"

namespace gpuyard::cli::slurm {

// Returns a line in a format such as "JobID:12,Name:64|" with these values; a column without one is
// blank. As Slurm does, cuts a value that is too long.
inline std::string fixed_line(std::string_view format,
                              const std::map<std::string, std::string>& values) {
  std::string line;
  while (!format.empty()) {
    std::string_view column = take_until(',', format);
    const std::string name(take_until(':', column));
    const auto width = take_number<std::size_t>(column).value_or(0);
    const auto value = values.find(name);
    std::string text = value == values.end() ? "" : value->second;
    text.resize(width, ' ');
    line += text.append(column);
  }
  return line + "\n";
}

}  // namespace gpuyard::cli::slurm
