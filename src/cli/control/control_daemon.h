// The daemon that changes GPUs, and what to do where it cannot or will not.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/client/source.h"

namespace gpuyard::cli {

// Errc::unavailable: none is running.
Result<http::Endpoint> control_daemon(const std::string& socket);

// Complains that there is none, with how to start one; returns the exit code.
int complain_without_daemon(const Error&);

// Complains of what `daemon` answered, or that it did not, with what to do next; returns the exit
// code.
int complain_about_control(const Error&, const http::Endpoint& daemon);

// The daemon's refusal with this user's name where it says USER.
std::string with_own_name(std::string message, std::string_view user);

}  // namespace gpuyard::cli
