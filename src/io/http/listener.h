// One listening socket: accepts what comes, up to a limit, and starts a session for each. Inner
// header; includes no Asio.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "http/content_coding.h"
#include "http/endpoint.h"
#include "http/loop.h"
#include "http/message.h"
#include "http/parties.h"
#include "http/server.h"

namespace gpuyard::http {

// Shared by all sessions of one server. Sessions may outlive the server by a turn of the loop, so
// they hold it together.
struct Site {
  Site(IoLoop& io_loop, Loop& time_source, Handler requests, const Limits& bounds)
      : io(io_loop), time(time_source), limits(bounds), handler(std::move(requests)) {}

  IoLoop& io;  // what coroutines run on
  Loop& time;  // what deadlines count on; a test has one that stands still
  const Limits limits;
  Handler handler;
  std::vector<std::string> allowed_hosts;
  std::function<uid_t(uid_t)> person;           // the user behind a uid; empty: itself
  std::function<bool(const Peer&)> privileged;  // empty: root and our own user
  // The requests whose peer's process is asked for, which takes a descriptor. Empty: all.
  std::function<bool(const Request&)> wants_process;
  Counters counters;
  GzipCache packed;  // bodies that several responses share
  std::uint64_t next_request = 1;
  Parties parties{limits};
  bool closing = false;
  std::function<void()> drained;  // called once when closing and the last connection has ended

  void add(Connection& connection);
  void remove(Connection& connection);
  void begin_stream(Connection& connection);
  void end_stream(Connection& connection);
};

// The facts known of a client when it arrives.
struct Arrival {
  Peer peer;
  Party party = {};
  // Opens the peer's process. May be called while the connection is open; see peer.h.
  std::function<std::shared_ptr<const UniqueFd>()> open_process = {};
  std::string local_address;         // the literal it connected to; "" on a Unix socket
  std::shared_ptr<const void> seat;  // held as long as it counts against its listener's limit
};

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
