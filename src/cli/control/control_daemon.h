// The daemon that changes GPUs, and advice for when it cannot or refuses.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "cli/control/control_request.h"
#include "cli/source.h"
#include "faces/client/daemon_client.h"
#include "faces/protocol/routes.h"

namespace gpuyard::cli {

// Prints the daemon's error, or that it did not answer, with advice; returns the exit code.
// `act` is what the scope "control" allows. `elsewhere`: the daemon is on another machine.
int print_control_error(Error, bool elsewhere, std::string_view act = "changing GPUs");

// Returns a daemon's refusal that names a group to join or to create, for this user.
Error with_group_advice(Error, std::string_view user, std::string_view act = "changing GPUs");

using RestoreRoute = protocol::Route<protocol::RestoreQuery, protocol::ChangeResults>;
template <class Body>
using SetRoute = protocol::Route<protocol::ManagedGpus, protocol::ChangeResults, Body>;

// The longest wait for a change. The daemon itself answers after 20 s, whatever the GPU does.
inline constexpr Duration kChangeTimeout = std::chrono::seconds(30);

// Copies the common flags into a body, or into the parameters of a DELETE.
template <class Body>
void set_change_flags(Body& request, const ControlVerb& verb, bool dry_run) {
  const auto if_true = [](bool flag) { return flag ? std::optional(true) : std::nullopt; };
  request.atomic = if_true(verb.atomic);
  request.force = if_true(verb.force);
  request.dry_run = if_true(dry_run);
  if (verb.detach) request.wait = false;
}

template <class Body>
ControlRequest make_set_request(std::string_view what, const SetRoute<Body>& route,
                                const ControlVerb& verb, Body request) {
  return {std::string(what),
          [&route, verb, request](const http::Endpoint& daemon, bool dry_run) mutable {
            set_change_flags(request, verb, dry_run);
            return client::call(daemon, route, {verb.gpus}, request, kChangeTimeout);
          }};
}

ControlRequest make_restore_request(SettingKind, const RestoreRoute&, const ControlVerb&);

// Waits for the end of the reset itself, which may take longer than the daemon's limit for an
// answer.
ControlRequest make_reset_request(const ControlVerb&);

// Whether the user sees a question and can answer it: stdin and stderr are a terminal.
bool is_interactive();

// Asks "Change it? [y/N] " on stderr and reads a line from stdin. Only yes is yes; the end of the
// input is no.
bool confirm(std::string_view question);

}  // namespace gpuyard::cli
