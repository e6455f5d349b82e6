// Divides the descriptors that the daemon may have open: half of them for connections, a quarter
// for the processes of waiting and held leases. The rest is for files, the driver-host and whatever
// else must go on when clients have used up their parts.
#pragma once

#include <sys/resource.h>

#include <cstddef>

#include "base/result.h"
#include "daemon/config/config.h"
#include "io/http/limits.h"

namespace gpuyard::daemon {

// With fewer, the connections of one user would leave none for root, so the daemon does not start.
inline constexpr rlim_t kMinDescriptors = 64;
Result<void> check_descriptors(rlim_t descriptors);

// Raises the soft limit of this process to its hard limit: each connection is a descriptor, and the
// usual soft limit of 1024 is a habit of select(). Returns the limit before, which is what a driver
// is used to.
rlim_t raise_descriptor_limit();

// Returns how many descriptors this process may have open now.
rlim_t descriptor_limit();

// Returns the limits of each server of the daemon.
http::Limits limits_of(const config::Config&, rlim_t descriptors);

// Returns how many claims may wait, of all users together.
std::size_t max_waiting_claims(rlim_t descriptors);

}  // namespace gpuyard::daemon
