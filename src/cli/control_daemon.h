// The daemon that changes GPUs, and what to do where it cannot or will not.
#pragma once

#include <string>

#include "base/result.h"
#include "client/source.h"

namespace gpuyard::cli {

// Errc::unavailable: none is running.
Result<http::Endpoint> control_daemon(const std::string& socket);

// Complains, with what to do next; returns the exit code.
int complain_about_control(const Error&);

}  // namespace gpuyard::cli
