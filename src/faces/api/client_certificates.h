// Decides which client certificates are good: neither expired nor revoked. Checks them at each
// request, because a connection outlives its handshake. Thread: io.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "base/end_watch.h"
#include "base/loop.h"
#include "base/result.h"
#include "io/http/message.h"

namespace gpuyard::api {

class ClientCertificates {
 public:
  // The loop outlives it. `revoked`: the fingerprints of revoked certificates.
  ClientCertificates(Loop& loop, std::set<std::string> revoked)
      : loop_(loop),
        revoked_(std::move(revoked)),
        ends_(loop, [this](const http::Peer& peer) { return check(peer).ok(); }) {}
  ClientCertificates(const ClientCertificates&) = delete;
  ClientCertificates& operator=(const ClientCertificates&) = delete;

  // Replaces the set of revoked certificates.
  void set_revoked(std::set<std::string> revoked);
  // Errc::denied, with the reason, if the peer's certificate is not good now.
  Result<void> check(const http::Peer&) const;
  // Calls `on_end` once when the peer's certificate is no longer good: at once when it is revoked,
  // within EndWatch::kPollInterval when it expires, also if the clock jumps.
  Subscription subscribe(http::Peer peer, std::function<void()> on_end) {
    return ends_.subscribe(std::move(peer), std::move(on_end));
  }

 private:
  Loop& loop_;
  std::set<std::string> revoked_;
  EndWatch<http::Peer> ends_;
};

}  // namespace gpuyard::api
