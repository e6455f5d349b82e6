// Small files and directories. Errors contain errno's text.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace gpuyard {

// Makes an error from errno: "opening /x: No such file or directory".
Error system_error(std::string_view doing);

// Opens a file to read it; `flags`: of open(), in addition.
Result<UniqueFd> open_to_read(const std::string& path, int flags = 0);

// Opens files that this user may not open, for the whole process; empty: they stay closed. It is
// called on any thread. Set it before threads start.
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

// Files that decide what a process with privileges does.

// Checks that only root can change the file or put another in its place. Root must own it and every
// directory and link on the way to it, and no other user may write to them (except to a directory
// like /tmp, whose entries only their owners can change, and to /dev/null, which is always empty).
// Errc::invalid has `why` this matters (it controls what root runs), the path that fails, its
// owner, its mode and what to do: `remedy`, or a command, which is suggested only for the file
// itself. Succeeds if this program has no more privileges than an ordinary user's
// (has_privileges()) or the file does not exist.
Result<void> check_trusted_by_root(const std::string& path, std::string_view why = {},
                                   std::string_view remedy = {});

// Checks the same of a path that any of these users may own, and this process's group write.
Result<void> check_trusted_by(const std::vector<uid_t>& owners, const std::string& path,
                              std::string_view why);

// Checks the same as check_trusted_by_root(), whatever the privileges of this program. A missing
// file is an error too, with another code.
Result<void> check_only_root_can_change(const std::string& path);

}  // namespace gpuyard
