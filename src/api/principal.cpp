#include "api/principal.h"

#include <fmt/format.h>

namespace gpuyard::api {
namespace {

using protocol::Scope;

std::string_view name_of(Scope scope) {
  switch (scope) {
    case Scope::open:
      return "open";
    case Scope::read:
      return "read";
    case Scope::lease:
      return "lease";
    case Scope::control:
      return "control";
    case Scope::admin:
      break;
  }
  return "admin";
}

}  // namespace

std::string Principal::name() const {
  return uid ? fmt::format("uid {}", *uid) : std::string("anonymous over TCP");
}

Principal principal_of(const http::Peer& peer, uid_t daemon_uid) {
  if (peer.kind == http::Peer::Kind::tcp) return {std::nullopt, Scope::read};
  const bool admin = peer.uid == 0 || peer.uid == daemon_uid;
  return {peer.uid, admin ? Scope::admin : Scope::lease};
}

bool may_see_arguments(const Principal& principal, const ProcessFacts& facts) {
  if (!principal.uid) return false;
  if (principal.scope == Scope::admin) return true;
  return *principal.uid == facts.uid && *principal.uid == facts.real_uid;
}

Result<void> authorise(const Principal& principal, const protocol::RouteInfo& route) {
  if (principal.scope >= route.scope) return {};
  const std::string_view next =
      principal.uid ? "ask an administrator of this machine"
                    : "TCP is read-only until there are tokens; use the Unix socket";
  return Error{Errc::denied, fmt::format("{} {} needs the scope \"{}\"; {} has \"{}\": {}",
                                         route.method, route.pattern, name_of(route.scope),
                                         principal.name(), name_of(principal.scope), next)};
}

}  // namespace gpuyard::api
