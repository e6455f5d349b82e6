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
  if (principal.by_credential()) {
    error.cause = fmt::format("the {} is limited by its own scope and by what its {} may do now",
                              principal.credential, principal.uid ? "user" : "service");
    error.hint = fmt::format(
        "gpuyard token create NAME --scope {}  # on the machine itself, or ask an administrator",
        enum_name(route.scope));
  } else if (principal.way == Way::tls) {
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

Who who_is(const http::Peer& peer, const Authority& authority) {
  if (peer.kind == http::Peer::Kind::tcp) return Who::nobody;
  if (authority.is_admin(peer.uid)) return Who::admin;
  const bool member = authority.control_gid && peer.in_group(*authority.control_gid);
  return member ? Who::member : Who::user;
}

}  // namespace

std::string Principal::name() const {
  if (uid) return fmt::format("uid {}", *uid);
  return service.empty() ? "anonymous over TCP" : "service " + service;
}

bool Principal::sees(const DeviceId& gpu) const {
  return gpus.empty() || std::ranges::count(gpus, gpu) > 0;
}

bool Principal::sees_all(const std::vector<DeviceId>& wanted) const {
  return std::ranges::all_of(wanted, [this](const DeviceId& gpu) { return sees(gpu); });
}

Scope Authority::most_of(Way way, Who who) const {
  if (way == Way::tls && who == Who::nobody) return anonymous;
  const auto* const grant = std::ranges::find_if(
      kGrants, [&](const Grant& one) { return one.way == way && one.who == who; });
  return grant == kGrants.end() ? Scope::open : grant->most;
}

Way way_of(const http::Peer& peer, const Authority& authority) {
  if (peer.kind == http::Peer::Kind::tcp) return peer.encrypted ? Way::tls : Way::plain_tcp;
  const bool leases = !authority.lease_socket.empty() && peer.listener == authority.lease_socket;
  return leases ? Way::lease_socket : Way::socket;
}

Principal principal_of(const http::Peer& peer, const Authority& authority) {
  const Way way = way_of(peer, authority);
  const Who who = who_is(peer, authority);
  const auto uid = who == Who::nobody ? std::nullopt : std::optional(peer.uid);
  return {uid, authority.most_of(way, who), way == Way::lease_socket, way};
}

Principal principal_of(const access::Token& token, Way way, bool member,
                       const Authority& authority) {
  Principal principal{token.uid, std::min(token.scope, Scope::read), way == Way::lease_socket, way};
  principal.credential = token.id.empty() ? "certificate " + token.name : "token " + token.id;
  principal.gpus = token.gpus;
  if (way == Way::plain_tcp) {
    principal.scope = Scope::open;
  } else if (token.uid) {
    const Who who = authority.is_admin(*token.uid) ? Who::admin : member ? Who::member : Who::user;
    principal.scope = std::min(token.scope, authority.most_of(way, who));
  } else {
    principal.service = token.name;
  }
  return principal;
}

bool may_see_arguments(const Principal& principal, const ProcessMetadata& facts) {
  if (!principal.uid || principal.contained) return false;
  if (principal.scope == Scope::admin) return true;
  return *principal.uid == facts.uid && *principal.uid == facts.real_uid;
}

Result<void> authorise(const Principal& principal, const protocol::RouteInfo& route,
                       const Authority& authority, std::string_view user) {
  if (route.local && (principal.way != Way::socket || principal.by_credential())) {
    return Error{Errc::denied, "this request is available only to users of this machine",
                 "send it over the daemon's Unix socket, or over -H ssh://HOST"};
  }
  if (principal.scope < route.scope) {
    const std::string who = !user.empty()   ? fmt::format("user {}", user)
                            : principal.uid ? fmt::format("UID {}", *principal.uid)
                                            : principal.name();
    // A client without a token or a user is not told a scope: it can change only how it connects.
    const bool known = principal.uid || !principal.service.empty();
    Error error{
        Errc::denied,
        fmt::format("this request needs the scope \"{}\"{}", enum_name(route.scope),
                    known ? fmt::format("; {} has \"{}\"", who, enum_name(principal.scope)) : "")};
    explain(error, principal, route, authority, who);
    return error;
  }
  if (!principal.gpus.empty() && route.gpus == protocol::Gpus::whole) {
    return Error{Errc::denied, "this request concerns all GPUs of the machine",
                 fmt::format("the {} is limited to {} of them; use one created without --gpu",
                             principal.credential, principal.gpus.size())};
  }
  return {};
}

}  // namespace gpuyard::api
