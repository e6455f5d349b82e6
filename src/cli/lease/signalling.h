// The signals of a release that the daemon leaves to its client. The kernel knows the client as the
// user of the processes, or as root, and judges each signal.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "faces/protocol/leases.h"
#include "io/http/endpoint.h"

namespace gpuyard::cli {

// Sends the signals on this machine, each to the very process that the daemon means. Returns the
// processes that run and did not get it. Errc::denied: they are not of this machine, or have other
// numbers in this PID namespace; none was signalled.
Result<std::vector<protocol::UnsignalledProcess>> send_signals(
    const protocol::UnsignalledProcesses&);

// The same on the daemon's machine, if ssh leads to it. The error says what to do.
Result<void> send_remaining_signals(const http::Endpoint& daemon,
                                    const protocol::UnsignalledProcesses&,
                                    const std::string& lease);

// The far end of that: reads the list from stdin until its end, and prints what is left of it.
Result<void> relay_signals();

}  // namespace gpuyard::cli
