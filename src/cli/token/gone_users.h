// Good tokens of users that the machine no longer has.
#pragma once

#include <string>
#include <vector>

#include "http/endpoint.h"
#include "protocol/tokens.h"

namespace gpuyard::cli {

// Returns a sentence for each such user: who it is, and what to do.
std::vector<std::string> about_gone_users(const protocol::Tokens&);

// Asks the daemon of this machine, or of one that is reached through ssh, for the tokens that the
// caller may see. Returns nothing where tokens are not listed: over TCP, or with an older daemon.
std::vector<std::string> gone_users_at(const http::Endpoint& daemon);

}  // namespace gpuyard::cli
