// A secret in a file of its own, which not everybody may read.
#pragma once

#include <string>

#include "base/result.h"
#include "notify/secret.h"

namespace gpuyard::notify {

// The file's text without white space around it; one line. An absolute path, because a daemon has
// no directory of its own. Errc::invalid says what is wrong and what to do.
Result<Secret> read_secret(const std::string& path);

}  // namespace gpuyard::notify
