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

// Of the running program, as the kernel knows it.
std::string program_path();

// "/a" of "/a/b", "/" of "/a", "." of "a": always a directory that can be opened.
std::string parent_directory(const std::string& path);

// Creates `path` and its parents. What it creates has `mode` whatever the umask; what was there
// keeps its own.
Result<void> make_directories(const std::string& path, unsigned mode = 0755);

// A place where only this user can put things: a directory and no link to one, which is this user's
// and nobody else may write to. Errc::denied says what is wrong with it.
Result<void> check_private_directory(const std::string& path);

// Creates `path`, unless it is there, with `mode` whatever the umask, and checks it: in a directory
// like /tmp somebody else may have been first. Its parent must exist.
Result<void> make_private_directory(const std::string& path, unsigned mode = 0700);

// Holds an exclusive flock on `path` (created for this user alone if needed, never through a link)
// for the life of the descriptor. Errc::conflict if another process has it. What the file holds is
// not touched.
Result<UniqueFd> lock_file(const std::string& path);

// Files that say what root does.

// Whether nobody but root can change that file, nor put another in its place: it and every
// directory and link on the way to it are root's, and nobody else may write to them (to a directory
// whose entries are their owners' alone, like /tmp, others may). Errc::invalid names the one that
// is not, whose it is, its mode, and the command that mends it. Asked by a program that is not
// root's, and of a file that is not there, all is well.
Result<void> check_trusted_by_root(const std::string& path);

}  // namespace gpuyard
