// Checks a configuration beyond what its keys check, without starting the daemon.
#pragma once

#include <string>

#include "base/result.h"
#include "daemon/config/config.h"

namespace gpuyard::daemon {

// Checks that only root can change the library, if its path is given: its code runs with what
// rights this process has.
Result<void> check_library(const std::string& path);

// Checks everything of a configuration that can be checked without starting: addresses, prefix,
// socket path.
Result<void> check_config(const config::Config&);

}  // namespace gpuyard::daemon
