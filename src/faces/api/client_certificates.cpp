#include "faces/api/client_certificates.h"

#include <utility>

#include <fmt/format.h>

namespace gpuyard::api {

void ClientCertificates::revoke(std::set<std::string> revoked) {
  revoked_ = std::move(revoked);
  ends_.tell_ended();
}

Result<void> ClientCertificates::check(const http::Peer& peer) const {
  if (revoked_.contains(peer.certificate_fingerprint)) {
    return Error{Errc::denied, fmt::format("the client certificate {} is listed in tls.revoked",
                                           peer.certificate_fingerprint)};
  }
  if (peer.certificate_ends && loop_.wall() >= *peer.certificate_ends) {
    return Error{Errc::denied,
                 fmt::format("the client certificate {} expired at {}; renew it",
                             peer.certificate_fingerprint, to_rfc3339(*peer.certificate_ends))};
  }
  return {};
}

}  // namespace gpuyard::api
