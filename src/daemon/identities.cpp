#include "daemon/identities.h"

#include <unistd.h>

#include <set>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/paths.h"
#include "base/record.h"
#include "core/processes/user_names.h"
#include "daemon/config/keys.h"
#include "io/http/certificate.h"

namespace gpuyard::daemon {
namespace {

// Both were checked with the configuration.
void add_certificates(api::Authority& authority, const config::Config::Tls& tls) {
  using enum config::Config::Tls::Anonymous;
  authority.anonymous = tls.anonymous == read      ? api::Scope::read
                        : tls.anonymous == metrics ? api::Scope::metrics
                                                   : api::Scope::open;
  for (const std::string& text : tls.clients) {
    const auto client = config::certificate_role_of(text);
    if (!client) continue;
    auth::Token grant;
    grant.name = client->name;
    grant.uid = client->uid;
    grant.scope = enum_from_name<api::Scope>(client->scope).value_or(api::Scope::open);
    authority.certificates.emplace(client->name, std::move(grant));
  }
}

std::set<std::string> revoked_of(const config::Config::Tls& tls) {
  std::set<std::string> revoked;
  for (const std::string& text : tls.revoked) {
    if (auto fingerprint = http::to_fingerprint(text)) revoked.insert(*std::move(fingerprint));
  }
  return revoked;
}

api::Authority authority_of(const config::Config& config) {
  // The user who starts a daemon is its administrator. The user of the packaged service is not,
  // because commands of alerts run as that user.
  api::Authority authority(Environment::current().system_service ? 0 : ::geteuid());
  authority.lease_socket = config::lease_socket_of(config.server);
  add_certificates(authority, config.tls);
  authority.control_group = config.control.group;
  if (config.control.group.empty()) return authority;
  const auto gid = processes::look_up_group(config.control.group);
  if (gid) authority.control_gid = *gid;
  if (config.control.enabled && !gid) {
    log::warning("{}: only administrators can change GPUs", gid.error().text());
  }
  return authority;
}

}  // namespace

Identities::Identities(Loop& loop, Workers& workers, store::StateStore& state,
                       const config::Config& config, const processes::SubordinateUids& uids)
    : subordinate_uids(uids),
      users(loop, workers.names),
      token_db(state),
      tokens(loop, token_db),
      auth_throttle(loop),
      certificates(loop, revoked_of(config.tls)),
      authority(authority_of(config)),
      group(loop, workers.names, [gid = authority.control_gid](uid_t uid) {
        return gid ? processes::look_up_membership(uid, *gid) : Result<bool>(false);
      }) {}

void Identities::start() {
  tokens.start();
  users.refresh_regularly([this] {
    std::vector<std::uint32_t> owners;
    for (const std::uint32_t uid : tokens.users()) owners.push_back(owner_of(uid));
    return owners;
  });
}

void Identities::set_revoked(const config::Config::Tls& tls) {
  certificates.set_revoked(revoked_of(tls));
}

}  // namespace gpuyard::daemon
