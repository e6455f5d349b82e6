// The callers of the routes in these tests.
#pragma once

#include "io/http/message.h"

namespace gpuyard::api {

inline constexpr uid_t kDaemonUid = 990;  // uid of the daemon

inline http::Peer local_user(uid_t uid) {
  http::Peer peer;
  peer.kind = http::Peer::Kind::unix_socket;
  peer.uid = uid;
  return peer;
}

}  // namespace gpuyard::api
