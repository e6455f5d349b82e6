// The client certificates that are good: neither over nor revoked. They are asked at each request,
// since a connection outlives its handshake. Lives on the io thread.
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

  // `revoked`: by their fingerprints.
  ClientCertificates(Loop& loop, std::set<std::string> revoked)
      : loop_(loop), revoked_(std::move(revoked)) {}
  ClientCertificates(const ClientCertificates&) = delete;
  ClientCertificates& operator=(const ClientCertificates&) = delete;

  // Refuses these and no others from now on.
  void revoke(std::set<std::string> revoked);
  // Errc::denied says why the peer's certificate is no good now.
  Result<void> check(const http::Peer&) const;
  // Calls `ended` once when the peer's certificate is no longer good: at once when it is revoked,
  // within kLook when it is over, also if the clock jumps.
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
