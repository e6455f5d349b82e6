// One listening socket: accepts what comes, up to a limit, and starts a session for each. Inner
// header; includes no Asio.
#pragma once

#include <memory>

#include "base/unique_fd.h"
#include "http/endpoint.h"
#include "http/site.h"

namespace gpuyard::http {

class Listener {
 public:
  Listener(std::shared_ptr<Site> site, UniqueFd socket, Endpoint bound);

 private:
  void watch();
  void pause();
  void accept_some();
  bool accept_one();
  bool cannot_accept(int code);
  void welcome(UniqueFd client, const SocketAddress& from);
  Party party_of(const Peer&, const SocketAddress& from) const;
  void turn_away(const UniqueFd& client, Parties::Room);

  std::shared_ptr<Site> site_;
  UniqueFd socket_;
  Endpoint bound_;
  std::shared_ptr<const int> seats_;  // each connection holds a copy
  bool said_exhausted_ = false;
  Subscription watch_;
  Subscription pause_;
};

}  // namespace gpuyard::http
