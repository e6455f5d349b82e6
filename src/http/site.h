// What the connections of one server have in common. Inner header; includes no Asio.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "http/content_coding.h"
#include "http/limits.h"
#include "http/loop.h"
#include "http/message.h"
#include "http/server.h"

namespace gpuyard::http {

// Who shares what one user may have: a user on a Unix socket, an address on TCP.
struct Party {
  std::string name;         // "uid 1000", "192.0.2.7"
  bool privileged = false;  // root, or our own user: places are kept for them
};

// A running session as its server sees it.
class Connection {
 public:
  enum class Doing : std::uint8_t {
    waiting,    // for its client to send
    answering,  // until there is something to say, and until it is said
    streaming,  // a response that has no end
    ending,     // it said all, or is gone
  };

  virtual ~Connection() = default;
  // Ends now if no request has begun to arrive, else after its response.
  virtual void finish() = 0;
  // Ends without another byte.
  virtual void abort() = 0;
  virtual Doing doing() const = 0;
  // Of one that waits: since when.
  virtual TimePoint waiting_since() const = 0;
  // The seat it was given at its listener.
  virtual const void* seat() const = 0;
  virtual const Party& party() const = 0;
};

// What all sessions of one server share. Sessions may outlive the server by a turn of the loop, so
// they hold it together.
struct Site {
  Site(IoLoop& io_loop, Loop& time_source, Handler requests, const Limits& bounds)
      : io(io_loop), time(time_source), limits(bounds), handler(std::move(requests)) {}

  IoLoop& io;  // what coroutines run on
  Loop& time;  // what deadlines count on; a test has one that stands still
  const Limits limits;
  Handler handler;
  std::vector<std::string> allowed_hosts;
  std::function<uid_t(uid_t)> person;           // who is behind a user; empty: himself
  std::function<bool(const Peer&)> privileged;  // empty: root and our own user
  // Whose peer's process is asked for, which takes a descriptor. Empty: everybody's.
  std::function<bool(const Request&)> wants_process;
  Counters counters;
  GzipCache packed;  // bodies that several responses share
  std::uint64_t next_request = 1;
  std::set<Connection*> connections;
  bool closing = false;
  std::function<void()> drained;  // called once when closing and the last connection has ended

  void add(Connection& connection);
  void remove(Connection& connection);

  enum class Room : std::uint8_t {
    there,   // perhaps because another connection was ended
    own,     // the party has all that one may have
    nobody,  // there is none, and nobody has more than the party would
  };
  // For one more connection of that party at a listener of which so many seats are taken.
  Room room_for(const Party&, const void* seat, std::size_t taken);
  // For this connection's response, which has no end.
  Room room_to_stream(const Connection&);

 private:
  using Which = std::function<bool(const Connection&)>;
  // Ends one of those of the party that has most of them, if that is more than `than`.
  bool take_from_most(const Which& which, std::size_t than);
  // Ends the one that has waited longest for its client.
  bool end_idle(const Which& which);
  std::size_t count(const Which& which) const;
};

// What is known of a client when it arrives.
struct Arrival {
  Peer peer;
  Party party = {};
  // Of the peer, for as long as the connection is open; see peer_process.h.
  std::function<std::shared_ptr<const UniqueFd>()> open_process = {};
  std::string local_address;         // the literal it connected to; "" on a Unix socket
  std::shared_ptr<const void> seat;  // held as long as it counts against its listener's limit
};

}  // namespace gpuyard::http
