// Small files and directories, with the errno's text in the error.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace gpuyard {

// The error for what errno says now: "opening /x: No such file or directory".
Error system_error(std::string_view doing);

// At most `limit` bytes; a longer file is an error.
Result<std::string> read_file(const std::string& path, std::size_t limit);

// The directory of the running program, for finding what is installed beside it.
std::string program_directory();
std::string program_path();

// Creates `path` and its parents with `mode`.
Result<void> make_directories(const std::string& path, unsigned mode = 0755);

// Holds an exclusive flock on `path` (created if needed) for the life of the descriptor.
// Errc::conflict if another process has it.
Result<UniqueFd> lock_file(const std::string& path);

}  // namespace gpuyard
