// Finds good tokens of users that were deleted from the machine.
#pragma once

#include <string>
#include <vector>

#include "faces/protocol/tokens.h"
#include "io/http/endpoint.h"

namespace gpuyard::cli {

// Returns a sentence for each such UID, with the command that revokes its tokens.
std::vector<std::string> gone_user_warnings(const protocol::Tokens&);

// Reads the tokens that the caller may see from the daemon of this machine, or from a remote one
// through ssh. Returns nothing if tokens are not listed: over TCP, or by an older daemon.
std::vector<std::string> fetch_gone_user_warnings(const http::Endpoint& daemon);

}  // namespace gpuyard::cli
