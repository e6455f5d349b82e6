// The caller of a request and its rights: who it is, over what, and so how much. The grants below
// and the rows of protocol/routes.h are the whole of authority; the tests walk every pair of them.
#pragma once

#include <sys/types.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "core/auth/token.h"
#include "faces/protocol/route.h"
#include "gpu/device/process.h"
#include "io/http/message.h"

namespace gpuyard::api {

using auth::Scope;

// The transport of a request.
enum class Transport : std::uint8_t {
  socket,        // the daemon's Unix socket, also through ssh: the kernel names the peer
  lease_socket,  // the one for containers, where anybody may be root
  plain_tcp,     // nobody names the peer, and others may read along
  tls,           // nobody names the peer, except by a token or a certificate
};

// The class of a caller, by what is known of it.
enum class CallerClass : std::uint8_t {
  anonymous,
  user,    // a uid
  member,  // of the group that may control
  admin,   // root, or the user who started the daemon
};

struct ScopeGrant {
  Transport transport;
  CallerClass caller;
  Scope max_scope;
};

// A token has the least of its own scope and of what its user may now on the socket; a service's
// may read. Over plain TCP it is refused: see Router.
inline constexpr std::array kScopeGrants = {
    ScopeGrant{Transport::socket, CallerClass::anonymous, Scope::open},
    ScopeGrant{Transport::socket, CallerClass::user, Scope::lease},
    ScopeGrant{Transport::socket, CallerClass::member, Scope::control},
    ScopeGrant{Transport::socket, CallerClass::admin, Scope::admin},
    ScopeGrant{Transport::lease_socket, CallerClass::anonymous, Scope::open},
    ScopeGrant{Transport::lease_socket, CallerClass::user, Scope::lease},
    ScopeGrant{Transport::lease_socket, CallerClass::member, Scope::lease},
    ScopeGrant{Transport::lease_socket, CallerClass::admin, Scope::lease},
    ScopeGrant{Transport::plain_tcp, CallerClass::anonymous, Scope::read},
    // Unless Authority::anonymous says more.
    ScopeGrant{Transport::tls, CallerClass::anonymous, Scope::open},
    ScopeGrant{Transport::tls, CallerClass::user, Scope::lease},
    ScopeGrant{Transport::tls, CallerClass::member, Scope::control},
    ScopeGrant{Transport::tls, CallerClass::admin, Scope::admin},
};

struct Principal {
  std::optional<uid_t> uid;  // empty: not known, or a service
  Scope scope = Scope::open;
  // True for the containers' socket. A uid there may belong to another user outside: anybody may be
  // root in a container.
  bool contained = false;
  Transport transport = Transport::socket;
  std::string credential = {};  // that was shown: "token k3m5q7ab", "certificate DNS:ci"; "": none
  std::string service = {};     // whose token it is, if it is no user's
  std::vector<DeviceId> gpus = {};  // the only ones it sees; empty: all

  // "uid 1000", "service grafana", "anonymous over TCP": whose a lease or a setting is.
  std::string name() const;
  bool has_credential() const { return !credential.empty(); }
  bool can_see(const DeviceId&) const;
  bool can_see_all(const std::vector<DeviceId>& gpus) const;
};

// The users and groups that have more rights than others.
// `daemon`: who is an administrator beside root; root itself if there is no other.
struct Authority {
  Authority(uid_t daemon) : daemon_uid(daemon) {}
  Authority(uid_t daemon, std::string group, std::optional<gid_t> gid)
      : daemon_uid(daemon), control_group(std::move(group)), control_gid(gid) {}

  uid_t daemon_uid;
  std::string control_group = {};         // its name; "": only admins may control
  std::optional<gid_t> control_gid = {};  // empty: this machine has no such group
  std::string lease_socket = {};          // its clients may at most lease; "": there is none
  Scope anonymous = Scope::open;          // of whoever shows no token over TLS
  // The rights of names in client certificates, as tokens without an ID.
  std::map<std::string, auth::Token> certificates = {};

  bool is_admin(uid_t uid) const { return uid == 0 || uid == daemon_uid; }
  Scope max_scope(Transport, CallerClass) const;
};

Transport transport_of(const http::Peer&, const Authority&);

// The caller as the connection alone names it.
Principal principal_of(const http::Peer&, const Authority&);

// The caller who shows a good token. `member`: whether its user is of the group now.
Principal principal_of(const auth::Token&, Transport, bool member, const Authority&);

// Returns whether the principal may see the machine's name, its workload and its problems. Other
// callers may only see whether the daemon works.
inline bool can_see_machine(const Principal& principal) {
  return principal.scope >= Scope::read;
}

// Returns whether the principal may see a process's arguments: only its own user and
// administrators, never a caller whom the kernel does not name. The user of a process that was
// started by another user may not see them, nor may that other user.
bool can_see_arguments(const Principal&, const ProcessMetadata&);

// Errc::denied, saying what is missing and how to get it.
// `user`: the name of the principal's user, where it is known without a lookup.
Result<void> authorise(const Principal&, const protocol::RouteInfo&, const Authority&,
                       std::string_view user = {});

}  // namespace gpuyard::api
