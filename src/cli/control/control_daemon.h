// The daemon that changes GPUs, and what to do where it cannot or will not.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "cli/client/daemon_client.h"
#include "cli/client/source.h"
#include "cli/control/control_request.h"
#include "protocol/routes.h"

namespace gpuyard::cli {

// Errc::unavailable: none is running.
Result<http::Endpoint> control_daemon(const std::string& socket);

// Complains that there is none, with how to start one; returns the exit code.
int complain_without_daemon(const Error&);

// Complains of what `daemon` answered, or that it did not, with what to do next; returns the exit
// code.
int complain_about_control(const Error&, const http::Endpoint& daemon);

// The daemon's refusal with this user's name where it says USER.
std::string with_own_name(std::string message, std::string_view user);

// How the daemon is asked for a change: flags that every change has, and how long an answer may
// take.

using RestoreRoute = protocol::Route<protocol::RestoreQuery, protocol::Changes>;
template <class Wish>
using SetRoute = protocol::Route<protocol::ManagedGpus, protocol::Changes, Wish>;

// The daemon itself answers after 20 s, whatever the GPU does.
inline constexpr Duration kChangeDeadline = std::chrono::seconds(30);

// Of a body, or of the parameters of a DELETE.
template <class Wish>
void say_how(Wish& wish, const ControlVerb& verb, bool dry_run) {
  const auto if_true = [](bool flag) { return flag ? std::optional(true) : std::nullopt; };
  wish.atomic = if_true(verb.atomic);
  wish.force = if_true(verb.force);
  wish.dry_run = if_true(dry_run);
  if (verb.no_wait) wish.wait = false;
}

template <class Wish>
ControlRequest ask_for(std::string_view what, const SetRoute<Wish>& route, const ControlVerb& verb,
                       Wish wish) {
  return {std::string(what),
          [&route, verb, wish](const http::Endpoint& daemon, bool dry_run) mutable {
            say_how(wish, verb, dry_run);
            return client::call(daemon, route, {verb.gpus}, wish, kChangeDeadline);
          }};
}

ControlRequest give_up(SettingKind, const RestoreRoute&, const ControlVerb&);

// Waits for the end of the reset itself, which may take longer than the daemon lets anybody wait
// for an answer.
ControlRequest reset_gpu(const ControlVerb&);

// Asking somebody at the terminal before something is changed.

// Whether somebody would see the question and could answer it: stdin and stderr are a terminal.
bool can_be_asked();

// "Change it? [y/N] " on stderr, and a line from stdin. Anything but yes is no, and so is the end
// of the input.
bool consents(std::string_view question);

}  // namespace gpuyard::cli
