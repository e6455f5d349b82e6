// `forget` of the commands for an external allocator: gpuyard leases the GPUs again.
#pragma once

#include <string>
#include <string_view>

#include "cli/read/source_access.h"
#include "cli/screen/output.h"
#include "faces/client/daemon_client.h"

namespace gpuyard::cli {

// Asks the daemon that `what` needs. `until` completes "gpuyard leases the GPUs of this machine
// until ...". Returns an exit code.
template <class Answer>
int forget_allocator(const std::string& socket, std::string_view what,
                     const protocol::Route<protocol::NoParams, Answer>& route,
                     std::string_view until) {
  const auto daemon = require_daemon(socket, what);
  if (!daemon) return print_source_error(daemon.error());
  const auto done = client::call_with_retry(*daemon, route);
  if (!done) return print_source_error(done.error());
  print(formatted("gpuyard leases the GPUs of this machine until {}.\n", until));
  return 0;
}

}  // namespace gpuyard::cli
