#include "faces/api/principal.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/record.h"

namespace gpuyard::api {
namespace {

// Adds why the right is missing, and how to get it.
void explain(Error& error, const Principal& principal, const protocol::RouteInfo& route,
             const Authority& authority, std::string_view user) {
  const std::string& group = authority.control_group;
  if (principal.has_credential()) {
    error.cause = fmt::format("the {} is limited by its own scope and by what its {} may do now",
                              principal.credential, principal.uid ? "user" : "service");
    error.hint = fmt::format(
        "gpuyard token create NAME --scope {}  # on the machine itself, or ask an administrator",
        enum_name(route.scope));
  } else if (principal.transport == Transport::tls) {
    error.cause = "a token is required, sent as `Authorization: Bearer gpy_...`";
    error.hint = "gpuyard token create NAME  # on the machine itself";
  } else if (!principal.uid) {
    error.cause = "TCP without TLS is read-only; use the Unix socket, ssh, or a token over TLS";
  } else if (principal.contained) {
    error.cause = "this socket allows leasing only; use the daemon's main socket";
  } else if (route.scope != Scope::control || group.empty()) {
    error.cause = "ask an administrator of this machine";
  } else if (!authority.control_gid) {
    error.cause = fmt::format("the group \"{}\" does not exist on this machine", group);
    error.hint = fmt::format("groupadd --system {}  # as root; then restart gpuyard", group);
  } else {
    error.cause = fmt::format("{} is not in the group \"{}\"", user, group);
    error.hint = fmt::format("usermod -aG {} USER  # as root; then log in again", group);
  }
}

CallerClass caller_class_of(const http::Peer& peer, const Authority& authority) {
  if (peer.kind == http::Peer::Kind::tcp) return CallerClass::anonymous;
  if (authority.is_admin(peer.uid)) return CallerClass::admin;
  const bool member = authority.control_gid && peer.is_in_group(*authority.control_gid);
  return member ? CallerClass::member : CallerClass::user;
}

}  // namespace

std::string Principal::name() const {
  if (uid) return fmt::format("uid {}", *uid);
  return service.empty() ? "anonymous over TCP" : "service " + service;
}

bool Principal::can_see(const DeviceId& gpu) const {
  return gpus.empty() || std::ranges::count(gpus, gpu) > 0;
}

bool Principal::can_see_all(const std::vector<DeviceId>& wanted) const {
  return std::ranges::all_of(wanted, [this](const DeviceId& gpu) { return can_see(gpu); });
}

Scope Authority::max_scope(Transport transport, CallerClass caller) const {
  if (transport == Transport::tls && caller == CallerClass::anonymous) return anonymous;
  const auto* const grant = std::ranges::find_if(kScopeGrants, [&](const ScopeGrant& one) {
    return one.transport == transport && one.caller == caller;
  });
  return grant == kScopeGrants.end() ? Scope::open : grant->max_scope;
}

Transport transport_of(const http::Peer& peer, const Authority& authority) {
  if (peer.kind == http::Peer::Kind::tcp)
    return peer.encrypted ? Transport::tls : Transport::plain_tcp;
  const bool leases = !authority.lease_socket.empty() && peer.listener == authority.lease_socket;
  return leases ? Transport::lease_socket : Transport::socket;
}

Principal principal_of(const http::Peer& peer, const Authority& authority) {
  const Transport transport = transport_of(peer, authority);
  const CallerClass caller = caller_class_of(peer, authority);
  const auto uid = caller == CallerClass::anonymous ? std::nullopt : std::optional(peer.uid);
  return {uid, authority.max_scope(transport, caller), transport == Transport::lease_socket,
          transport};
}

Principal principal_of(const auth::Token& token, Transport transport, bool member,
                       const Authority& authority) {
  Principal principal{token.uid, std::min(token.scope, Scope::read),
                      transport == Transport::lease_socket, transport};
  principal.credential = token.id.empty() ? "certificate " + token.name : "token " + token.id;
  principal.gpus = token.gpus;
  if (transport == Transport::plain_tcp) {
    principal.scope = Scope::open;
  } else if (token.uid) {
    const CallerClass caller = authority.is_admin(*token.uid) ? CallerClass::admin
                               : member                       ? CallerClass::member
                                                              : CallerClass::user;
    principal.scope = std::min(token.scope, authority.max_scope(transport, caller));
  } else {
    principal.service = token.name;
  }
  return principal;
}

bool can_see_arguments(const Principal& principal, const ProcessMetadata& facts) {
  if (!principal.uid || principal.contained) return false;
  if (principal.scope == Scope::admin) return true;
  return *principal.uid == facts.uid && *principal.uid == facts.real_uid;
}

Result<void> authorise(const Principal& principal, const protocol::RouteInfo& route,
                       const Authority& authority, std::string_view user) {
  if (route.local && (principal.transport != Transport::socket || principal.has_credential())) {
    return Error{Errc::denied, "this request is available only to users of this machine",
                 "send it over the daemon's Unix socket, or over -H ssh://HOST"};
  }
  if (principal.scope < route.scope) {
    const std::string caller_name = !user.empty()   ? fmt::format("user {}", user)
                                    : principal.uid ? fmt::format("UID {}", *principal.uid)
                                                    : principal.name();
    // No scope is named to a client without a token or a user: it can change only how it connects.
    const bool known = principal.uid || !principal.service.empty();
    Error error{
        Errc::denied,
        fmt::format(
            "this request needs the scope \"{}\"{}", enum_name(route.scope),
            known ? fmt::format("; {} has \"{}\"", caller_name, enum_name(principal.scope)) : "")};
    explain(error, principal, route, authority, caller_name);
    return error;
  }
  if (!principal.gpus.empty() && route.gpus == protocol::GpuScope::whole) {
    return Error{Errc::denied, "this request concerns all GPUs of the machine",
                 fmt::format("the {} is limited to {} of them; use one created without --gpu",
                             principal.credential, principal.gpus.size())};
  }
  return {};
}

}  // namespace gpuyard::api
