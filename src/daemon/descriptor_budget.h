// How the descriptors that the daemon may have open are divided: half of them for connections, a
// quarter for processes that leases wait or are held for; the rest is for files, the driver-host
// and what else must go on when strangers have all that they may have.
#pragma once

#include <sys/resource.h>

#include "daemon/config/config.h"
#include "http/limits.h"

namespace gpuyard::daemon {

// What this process may have open now.
rlim_t descriptor_limit();

// Of each server of the daemon.
http::Limits limits_of(const config::Config&, rlim_t descriptors);

// Claims that wait, of all users together.
std::size_t most_waiting_claims(rlim_t descriptors);

}  // namespace gpuyard::daemon
