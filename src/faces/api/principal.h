// The caller of a request and its rights. On a Unix socket the kernel says who the caller is (peer
// uid); for TCP nothing does, so TCP is read-only and takes only requests whose Host field names
// this machine or a configured name. A principal has one scope of open < read < lease < control <
// admin, and the matched route's scope decides. Root and the daemon's own user are admin; members
// of the group `gpuyard` may control.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "device/process.h"
#include "http/message.h"
#include "protocol/route.h"

namespace gpuyard::api {

struct Principal {
  std::optional<uid_t> uid;  // empty for TCP, where the peer is unknown
  protocol::Scope scope = protocol::Scope::open;
  // True for the containers' socket. A uid there may belong to another user outside: anybody may be
  // root in a container.
  bool contained = false;

  std::string name() const;  // "uid 1000", "anonymous over TCP"
};

// The users and groups that have more rights than others.
struct Authority {
  Authority(uid_t daemon) : daemon_uid(daemon) {}
  Authority(uid_t daemon, std::string group, std::optional<gid_t> gid)
      : daemon_uid(daemon), control_group(std::move(group)), control_gid(gid) {}

  uid_t daemon_uid;
  std::string control_group = {};         // its name; "": only admins may control
  std::optional<gid_t> control_gid = {};  // empty: this machine has no such group
  std::string lease_socket = {};          // its clients may at most lease; "": there is none
};

// Unix socket: root and the daemon's own user are admin, members of the group may control, others
// may read and lease. The socket for leases: at most read and lease, even for root. TCP: read only,
// until there are tokens.
Principal principal_of(const http::Peer&, const Authority&);

// Returns whether the principal may see a process's arguments: only its own user and
// administrators, never a caller whom the kernel does not name. The user of a process that was
// started by another user may not see them, nor may that other user.
bool may_see_arguments(const Principal&, const ProcessFacts&);

// Errc::denied, saying what is missing and how to get it.
Result<void> authorise(const Principal&, const protocol::RouteInfo&, const Authority&);

}  // namespace gpuyard::api
