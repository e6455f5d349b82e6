#include "api/client_certificates.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

namespace gpuyard::api {

void ClientCertificates::revoke(std::set<std::string> revoked) {
  revoked_ = std::move(revoked);
  tell_ended();
}

Result<void> ClientCertificates::check(const http::Peer& peer) const {
  if (revoked_.contains(peer.certificate_fingerprint)) {
    return Error{Errc::denied, fmt::format("the client certificate {} is in tls.revoked",
                                           peer.certificate_fingerprint)};
  }
  if (peer.certificate_ends && loop_.wall() >= *peer.certificate_ends) {
    return Error{Errc::denied,
                 fmt::format("the client certificate {} expired at {}; renew it",
                             peer.certificate_fingerprint, to_rfc3339(*peer.certificate_ends))};
  }
  return {};
}

Subscription ClientCertificates::on_end(http::Peer peer, std::function<void()> ended) {
  const std::uint64_t number = ++next_watcher_;
  watchers_.emplace(number, Watcher{std::move(peer), std::move(ended)});
  if (!look_) look_ = loop_.call_after(kLook, [this] { look(); });
  return Subscription(here_.guard([this, number] { watchers_.erase(number); }));
}

void ClientCertificates::look() {
  look_.reset();
  tell_ended();
  if (!watchers_.empty()) look_ = loop_.call_after(kLook, [this] { look(); });
}

void ClientCertificates::tell_ended() {
  std::vector<std::function<void()>> told;
  std::erase_if(watchers_, [&](auto& one) {
    if (check(one.second.peer)) return false;
    told.push_back(std::move(one.second.ended));
    return true;
  });
  for (const auto& ended : told) ended();
}

}  // namespace gpuyard::api
