// Small files and directories. Errors contain errno's text.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace gpuyard {

// Makes an error from errno: "opening /x: No such file or directory".
Error system_error(std::string_view doing);

// Opens a file to read it; `flags`: of open(), in addition.
Result<UniqueFd> open_to_read(const std::string& path, int flags = 0);

// Opens files that this user may not open, for the whole process; empty: they stay closed.
// Thread: any. Set it before threads start.
using DeniedFileOpener = std::function<Result<UniqueFd>(const std::string& path)>;
void set_denied_file_opener(DeniedFileOpener);

// Returns the result of stat(), also for a file that only the function above can open.
Result<struct stat> stat_file(const std::string& path);

// Reads a file of at most `limit` bytes; a longer file is an error.
Result<std::string> read_file(const std::string& path, std::size_t limit);

// Returns the path of the running program as the kernel knows it; "" if it does not.
std::string program_path();

// Returns "/a" for "/a/b", "/" for "/a", "." for "a": always a directory that can be opened.
std::string parent_directory(const std::string& path);

// Creates `path` and its parents. New directories get `mode` whatever the umask; existing ones keep
// their mode.
Result<void> make_directories(const std::string& path, unsigned mode = 0755);

// Checks that only this user can put files there: the path is a directory, not a link, belongs to
// this user, and nobody else may write to it. Errc::denied says which condition fails.
Result<void> check_private_directory(const std::string& path);

// Creates `path` if it does not exist, with `mode` whatever the umask, and then checks it, because
// in a directory like /tmp another user may have created it first. Its parent must exist.
Result<void> make_private_directory(const std::string& path, unsigned mode = 0700);

// Puts a file with this text in place of what was at `path`: readers see the one or the other, also
// after a power cut.
Result<void> replace_file(const std::string& path, std::string_view text, unsigned mode);

// Takes an exclusive flock on `path` and holds it for the life of the descriptor. Creates the file
// for this user alone if needed; never follows a link. Errc::conflict if another process has the
// lock. Leaves the file's contents alone.
Result<UniqueFd> lock_file(const std::string& path);

}  // namespace gpuyard
