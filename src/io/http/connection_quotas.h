// The connections of a server by user or address: how many one may have, and which gives way where
// there is no room. Inner header; includes no Asio.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "io/http/server.h"

namespace gpuyard::http {

// A user on a Unix socket, or an address on TCP. Its connections share what one user may have.
struct Party {
  std::string name;         // "uid 1000", "192.0.2.7"
  bool privileged = false;  // root, or our own user: places are kept for them

  friend auto operator<=>(const Party&, const Party&) = default;
};

// A running session as its server sees it.
class Connection {
 public:
  virtual ~Connection() = default;
  // Ends now if no request has begun to arrive, else after its response.
  virtual void finish() = 0;
  // Ends without another byte.
  virtual void abort() = 0;
  // Since when we wait for the client to send; nothing while it waits for us.
  virtual std::optional<TimePoint> waiting_since() const = 0;
  // The seat it was given at its listener.
  virtual const void* seat() const = 0;
  virtual const Party& party() const = 0;
};

// A client over TLS with which the handshake is under way, as its server sees it.
class Handshake {
 public:
  virtual ~Handshake() = default;
  // Ends without another byte.
  virtual void abort() = 0;
  // Since when we wait for the client to send; nothing while it waits for us.
  virtual std::optional<TimePoint> waiting_since() const = 0;
  virtual const Party& party() const = 0;
};

// The handshakes under way at one server. They have places of their own: those who are nobody yet
// keep nobody out who is somebody.
class Handshakes {
 public:
  explicit Handshakes(const Limits& limits) : limits_(limits) {}

  void add(Handshake& one) { all_.insert(&one); }
  void remove(Handshake& one) { all_.erase(&one); }
  std::size_t size() const { return all_.size(); }
  // Makes room, if it can, for one more of that party: where there is none, the one that has waited
  // longest for its client gives way, if that is long enough to call it stalled.
  bool make_room_for(const Party&, TimePoint now);
  void abort_all();

 private:
  const Limits& limits_;
  std::set<Handshake*> all_;
};

class Parties {
 public:
  explicit Parties(const Limits& limits) : limits_(limits) {}

  void add(Connection&);
  void remove(Connection&);
  // Between these two calls the connection sends a response that has no end.
  void begin_stream(Connection&);
  void end_stream(Connection&);

  const std::set<Connection*>& all() const { return all_; }
  std::size_t streams() const { return streams_.size(); }

  enum class Room : std::uint8_t {
    there,   // perhaps because another connection was ended
    own,     // the party has all that one may have
    nobody,  // there is none, and no other party has more than this one would
  };
  // Makes room, if it can, for one more connection of that party at a listener of which `taken`
  // seats are taken.
  Room room_for(const Party&, const void* seat, std::size_t taken);
  // The same for this connection's response, which has no end.
  Room room_to_stream(const Connection&);

 private:
  using Seat = const void*;
  using Some = std::set<Connection*>;
  // The connections of one party: at each listener, and all of them.
  struct Share {
    std::map<Seat, Some> at;
    Some all;
  };
  using Shares = std::map<Party, Share>;

  static const Some& of(const Share&, Seat);  // a null seat is all of them
  static const Some& of(const Shares&, const Party&, Seat);
  static void put(Shares&, Connection&);
  static void take(Shares&, Connection&);
  void end(Connection&);
  // Ends a connection of the party that has most, if it has more than `than`.
  bool end_of_most(const Shares&, Seat, std::size_t than);
  // Ends the connection that has waited longest for its client.
  bool end_idle(const Some&);

  const Limits& limits_;
  Some all_;
  Some streams_;
  std::map<Seat, std::size_t> streams_at_;
  // Without the connections that were ended to make room.
  Shares open_;
  Shares streaming_;
};

}  // namespace gpuyard::http
