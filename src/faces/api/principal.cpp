#include "api/principal.h"

#include <fmt/format.h>

#include "base/record.h"

namespace gpuyard::api {
namespace {

using protocol::Scope;

// Returns how to get the missing right.
std::string next_step(const Principal& principal, const protocol::RouteInfo& route,
                      const Authority& authority) {
  if (!principal.uid) return "TCP is read-only until there are tokens; use the Unix socket";
  if (principal.contained) return "this socket is for leases alone; use the daemon's other one";
  if (route.scope != Scope::control || authority.control_group.empty()) {
    return "ask an administrator of this machine";
  }
  const std::string& group = authority.control_group;
  if (!authority.control_gid) {
    return fmt::format(
        "members of the group \"{0}\" have it, but there is no such group here: an administrator "
        "can make it with `groupadd --system {0}`, and restart gpuyard",
        group);
  }
  return fmt::format(
      "members of the group \"{0}\" have it: an administrator can say `usermod -aG {0} USER`, and "
      "the user log in again",
      group);
}

}  // namespace

std::string Principal::name() const {
  return uid ? fmt::format("uid {}", *uid) : std::string("anonymous over TCP");
}

Principal principal_of(const http::Peer& peer, const Authority& authority) {
  if (peer.kind == http::Peer::Kind::tcp) return {std::nullopt, Scope::read};
  if (!authority.lease_socket.empty() && peer.listener == authority.lease_socket) {
    return {peer.uid, Scope::lease, true};
  }
  if (peer.uid == 0 || peer.uid == authority.daemon_uid) return {peer.uid, Scope::admin};
  const bool controls = authority.control_gid && peer.in_group(*authority.control_gid);
  return {peer.uid, controls ? Scope::control : Scope::lease};
}

bool may_see_arguments(const Principal& principal, const ProcessFacts& facts) {
  if (!principal.uid || principal.contained) return false;
  if (principal.scope == Scope::admin) return true;
  return *principal.uid == facts.uid && *principal.uid == facts.real_uid;
}

Result<void> authorise(const Principal& principal, const protocol::RouteInfo& route,
                       const Authority& authority) {
  if (principal.scope >= route.scope) return {};
  return Error{Errc::denied,
               fmt::format("{} {} needs the scope \"{}\"; {} has \"{}\": {}", route.method,
                           route.pattern, enum_name(route.scope), principal.name(),
                           enum_name(principal.scope), next_step(principal, route, authority))};
}

}  // namespace gpuyard::api
