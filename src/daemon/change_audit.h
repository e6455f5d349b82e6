// Compares the setter's own log of changes with the audit of the daemon: whether each change has an
// entry, and each entry that says a GPU was changed has a change. Pure; reads no file.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/paths.h"
#include "faces/protocol/control.h"
#include "gpu/driver/change_log.h"

namespace gpuyard::daemon {

struct ChangeComparison {
  std::size_t changes = 0;               // that were compared
  std::size_t older = 0;                 // of the log; the audit has no entries of that time
  std::string since;                     // RFC 3339; older ones were not compared
  std::vector<std::string> differences;  // oldest first
  // Entries that may lack a change, because the log could not be written when it was made.
  std::size_t excused = 0;
};

// `until`: RFC 3339; younger changes are not compared, because they may be in progress.
ChangeComparison compare_changes(const driver::LoggedChanges&,
                                 const std::vector<protocol::AuditLine>& audit,
                                 const std::string& until);

// The same with the log at `path`.
Result<ChangeComparison> compare_with_log(const std::string& path,
                                          const std::vector<protocol::AuditLine>& audit,
                                          const std::string& until);

// Returns where the log of a setter is: that of the package's service if the daemon at this socket
// is it, else beside the daemon's state.
std::string change_log_of(const std::string& state_directory, const std::string& socket);

}  // namespace gpuyard::daemon
