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
#include "io/http/limits.h"

namespace gpuyard::http {

// A user on a Unix socket, or an address on TCP. Its connections share what one user may have.
struct QuotaGroup {
  std::string name;         // "uid 1000", "192.0.2.7"
  bool privileged = false;  // root, or our own user: slots are reserved for them

  friend auto operator<=>(const QuotaGroup&, const QuotaGroup&) = default;
};

// Identifies a listener: the address of the slots that its connections share.
using ListenerKey = const void*;

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
  virtual ListenerKey listener_key() const = 0;
  virtual const QuotaGroup& quota_group() const = 0;
};

// A client over TLS with which the handshake is under way, as its server sees it.
class Handshake {
 public:
  virtual ~Handshake() = default;
  // Ends without another byte.
  virtual void abort() = 0;
  // Since when we wait for the client to send; nothing while it waits for us.
  virtual std::optional<TimePoint> waiting_since() const = 0;
  virtual const QuotaGroup& quota_group() const = 0;
};

// The handshakes under way at one server. They have slots of their own, so that clients that are
// not identified yet keep out none that is.
// Thread: io.
class HandshakeQuotas {
 public:
  explicit HandshakeQuotas(const Limits& limits) : limits_(limits) {}

  void add(Handshake& one) { all_.insert(&one); }
  void remove(Handshake& one) { all_.erase(&one); }
  std::size_t size() const { return all_.size(); }
  // Makes room, if it can, for one more of that quota group: where there is none, the one that has
  // waited longest for its client gives way, if that is long enough to call it stalled.
  bool admit(const QuotaGroup&, TimePoint now);
  void abort_all();

 private:
  const Limits& limits_;
  std::set<Handshake*> all_;
};

// Thread: io.
class ConnectionQuotas {
 public:
  explicit ConnectionQuotas(const Limits& limits) : limits_(limits) {}

  void add(Connection&);
  void remove(Connection&);
  // Between these two calls the connection sends a response that has no end.
  void begin_stream(Connection&);
  void end_stream(Connection&);

  const std::set<Connection*>& all() const { return all_; }
  std::size_t streams() const { return streams_.size(); }

  enum class QuotaDecision : std::uint8_t {
    admitted,     // perhaps because another connection was ended
    group_full,   // the quota group has all that one may have
    server_full,  // no slot is free, and no other quota group has more than this one would
  };
  // Makes room, if it can, for one more connection of that quota group at a listener of which
  // `taken` slots are taken.
  QuotaDecision admit(const QuotaGroup&, ListenerKey listener, std::size_t taken);
  // The same for this connection's response, which has no end.
  QuotaDecision admit_stream(const Connection&);

 private:
  using ConnectionSet = std::set<Connection*>;
  // The connections of one quota group: at each listener, and all of them.
  struct GroupConnections {
    std::map<ListenerKey, ConnectionSet> by_listener;
    ConnectionSet all;
  };
  using ConnectionsByGroup = std::map<QuotaGroup, GroupConnections>;

  // A null key is all of them.
  static const ConnectionSet& find_connections(const GroupConnections&, ListenerKey);
  static const ConnectionSet& find_connections(const ConnectionsByGroup&, const QuotaGroup&,
                                               ListenerKey);
  static void insert(ConnectionsByGroup&, Connection&);
  static void erase(ConnectionsByGroup&, Connection&);
  void evict(Connection&);
  // Ends a connection of the quota group that has most, if it has more than `threshold`.
  bool evict_from_largest(const ConnectionsByGroup&, ListenerKey, std::size_t threshold);
  // Ends the connection that has waited longest for its client.
  bool evict_idlest(const ConnectionSet&);

  const Limits& limits_;
  ConnectionSet all_;
  ConnectionSet streams_;
  std::map<ListenerKey, std::size_t> streams_by_listener_;
  // The connections by quota group, without those that were evicted.
  ConnectionsByGroup open_;
  ConnectionsByGroup streaming_;
};

}  // namespace gpuyard::http
