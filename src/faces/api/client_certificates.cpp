#include "faces/api/client_certificates.h"

#include <utility>

#include <fmt/format.h>

namespace gpuyard::api {

void ClientCertificates::set_revoked(std::set<std::string> revoked) {
  revoked_ = std::move(revoked);
  ends_.notify_ended();
}

Result<void> ClientCertificates::check(const http::Peer& peer) const {
  if (revoked_.contains(peer.certificate_fingerprint)) {
    return Error{Errc::denied, fmt::format("the client certificate {} is listed in tls.revoked",
                                           peer.certificate_fingerprint)};
  }
  if (peer.certificate_expires_at && loop_.wall() >= *peer.certificate_expires_at) {
    return Error{Errc::denied, fmt::format("the client certificate {} expired at {}; renew it",
                                           peer.certificate_fingerprint,
                                           to_rfc3339(*peer.certificate_expires_at))};
  }
  return {};
}

}  // namespace gpuyard::api
