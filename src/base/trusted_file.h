// Files that decide what a process with privileges does.
#pragma once

#include <sys/types.h>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gpuyard {

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
