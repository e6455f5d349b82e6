// Identities of callers: users and groups of this machine, tokens, and client certificates.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/loop.h"
#include "core/auth/auth_throttle.h"
#include "core/auth/token_store.h"
#include "core/processes/subordinate_uids.h"
#include "daemon/config/config.h"
#include "daemon/user_directory.h"
#include "daemon/workers.h"
#include "faces/api/client_certificates.h"
#include "faces/api/principal.h"
#include "io/store/state_store.h"
#include "io/store/token_db.h"

namespace gpuyard::daemon {

// Thread: io.
struct Identities {
  // The references outlive it. Asks the name service once, before the loop turns.
  Identities(Loop&, Workers&, store::StateStore&, const config::Config&,
             const processes::SubordinateUids&);

  void start();
  void set_revoked(const config::Config::Tls& tls);
  // Returns the owner of the quota of a uid.
  std::uint32_t owner_of(std::uint32_t uid) const { return subordinate_uids.owner_of(uid); }

  const processes::SubordinateUids& subordinate_uids;
  UserDirectory users;
  store::TokenDb token_db;
  auth::TokenStore tokens;
  auth::AuthThrottle auth_throttle;
  api::ClientCertificates certificates;
  const api::Authority authority;
  GroupDirectory group;  // that may control
};

}  // namespace gpuyard::daemon
