// The daemon of this machine, and the one that is meant by default: by the environment and by what
// listens.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/paths.h"
#include "base/result.h"
#include "faces/client/daemon_address.h"
#include "io/http/endpoint.h"

namespace gpuyard::client {

// Returns the sockets at which a client tries to find a daemon, best first, without those that
// another user may have prepared in /tmp.
std::vector<std::string> trusted_sockets(const Environment&);

// Returns the first of `sockets` where a trusted daemon listens; empty: there is none.
std::optional<http::Endpoint> find_daemon(const std::vector<std::string>& sockets);

// Returns whether the package's service is installed.
bool has_service();

// Returns the command that starts a daemon on this machine: with that service, if there is one.
std::string start_command();

// The error where find_daemon() has found none: `if_none`, with start_command(), or that this user
// may not connect to the system's daemon.
Error no_daemon_error(const std::vector<std::string>& sockets, std::string_view if_none);

// Adds the command that starts a daemon at that address to the error of one that does not answer.
Error add_start_hint(Error, const http::Endpoint& daemon);

// The credentials of this user for a daemon on another machine.
Credentials credentials_of(const Environment&);

// The error for two sources of a host that disagree.
Error conflicting_daemons_error(std::string_view one, std::string_view other);

// The daemon that `host` means, as -H has it; "": what GPUYARD_HOST or GPUYARD_SOCKET name, else
// the one of this machine. Errc::invalid if those two disagree, unavailable if no daemon runs here.
Result<http::Endpoint> select_daemon(const std::string& host, const Environment&,
                                     const Credentials&);

}  // namespace gpuyard::client
