// Files that say what root does.
#pragma once

#include <string>

#include "base/result.h"

namespace gpuyard {

// Whether nobody but root can change that file, nor put another in its place: it and every
// directory and link on the way to it are root's, and nobody else may write to them (to a directory
// whose entries are their owners' alone, like /tmp, others may). Errc::invalid names the one that
// is not, whose it is, its mode, and the command that mends it. Asked by a program that is not
// root's, and of a file that is not there, all is well.
Result<void> check_trusted_by_root(const std::string& path);

}  // namespace gpuyard
