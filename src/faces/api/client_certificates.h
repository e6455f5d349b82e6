// Decides which client certificates are good: neither expired nor revoked. Checks them at each
// request, because a connection outlives its handshake. Lives on the io thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "base/loop.h"
#include "base/result.h"
#include "http/message.h"

namespace gpuyard::api {

class ClientCertificates {
 public:
  static constexpr Duration kLook = std::chrono::milliseconds(250);

  // `revoked` holds fingerprints.
  ClientCertificates(Loop& loop, std::set<std::string> revoked)
      : loop_(loop), revoked_(std::move(revoked)) {}
  ClientCertificates(const ClientCertificates&) = delete;
  ClientCertificates& operator=(const ClientCertificates&) = delete;

  // Replaces the set of revoked certificates.
  void revoke(std::set<std::string> revoked);
  // Errc::denied, with the reason, if the peer's certificate is not good now.
  Result<void> check(const http::Peer&) const;
  // Calls `ended` once when the peer's certificate is no longer good: at once when it is revoked,
  // within kLook when it expires, also if the clock jumps.
  Subscription on_end(http::Peer peer, std::function<void()> ended);

 private:
  struct Watcher {
    http::Peer peer;
    std::function<void()> ended;
  };

  void look();
  void tell_ended();

  Loop& loop_;
  std::set<std::string> revoked_;
  std::map<std::uint64_t, Watcher> watchers_;
  std::uint64_t next_watcher_ = 0;
  Subscription look_;
  Lifetime here_;
};

}  // namespace gpuyard::api
