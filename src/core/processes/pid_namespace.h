// Whether a number that the driver gives names the same process here.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace gpuyard::processes {

// Drivers number processes as the host does, or as the namespace of whoever asks does, depending on
// the driver. Both are the same outside of containers. Inside, the process here that has the number
// may be another one: Errc::unsupported, unless somebody named the /proc to look in.
Result<void> check_pid_namespace(const std::string& proc_root);

// Of what /proc/self/ns/pid links to.
bool is_first_pid_namespace(std::string_view link);

}  // namespace gpuyard::processes
