// Who is asking, and what that allows. The kernel says who is on a Unix socket (peer uid); nobody
// says it for TCP, which is read-only and takes only requests whose Host field names this machine
// or a configured name. A principal has one scope of open < read < lease < control < admin, and the
// matched route's scope decides. Root and the daemon's own user are admin; members of the group
// `gpuyard` may control.
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
  std::optional<uid_t> uid;  // empty for TCP, where nobody vouches for the peer
  protocol::Scope scope = protocol::Scope::open;
  // Came by the socket that containers get, where a uid need not be who it is elsewhere: root is
  // anybody's there.
  bool contained = false;

  std::string name() const;  // "uid 1000", "anonymous over TCP"
};

// Who is more than anybody.
struct Authority {
  Authority(uid_t daemon) : daemon_uid(daemon) {}
  Authority(uid_t daemon, std::string group, std::optional<gid_t> gid)
      : daemon_uid(daemon), control_group(std::move(group)), control_gid(gid) {}

  uid_t daemon_uid;
  std::string control_group = {};         // its name; "": nobody but admins may control
  std::optional<gid_t> control_gid = {};  // empty: this machine has no such group
  std::string lease_socket = {};          // where nobody may more than lease; "": there is none
};

// Unix socket: root and the daemon's own user are admin, members of the group may control, others
// may read and lease. The socket for leases: nobody more than that, not even root. TCP: read only,
// until there are tokens.
Principal principal_of(const http::Peer&, const Authority&);

// The arguments of a process are for its own user and for administrators, and for nobody whom the
// kernel does not vouch for. One that runs for another user than the one who started it is
// neither's.
bool may_see_arguments(const Principal&, const ProcessFacts&);

// Errc::denied, saying what is missing and how to get it.
Result<void> authorise(const Principal&, const protocol::RouteInfo&, const Authority&);

}  // namespace gpuyard::api
