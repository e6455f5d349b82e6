// Prints an answer of the daemon, as a table or as JSON.
#pragma once

#include <string_view>

#include "cli/control/control_daemon.h"
#include "cli/read/source_access.h"
#include "cli/screen/output.h"

namespace gpuyard::cli {

// Asks the daemon that `what` needs, and prints the answer as JSON or as `table` has it.
template <class AnyVerb, class Fetch, class Table>
int print_report(const AnyVerb& verb, std::string_view what, Fetch&& fetch, Table&& table) {
  const auto daemon = require_daemon(verb.socket, what);
  if (!daemon) return print_source_error(daemon.error());
  const auto reply = fetch(*daemon);
  if (!reply) return print_control_error(reply.error(), daemon->is_remote());
  print(verb.json ? json_line(*reply) : host_heading(verb.socket) + table(*reply));
  return 0;
}

}  // namespace gpuyard::cli
