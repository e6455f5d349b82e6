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

// A running session as its server sees it.
class Connection {
 public:
  virtual ~Connection() = default;
  // Ends now if no request has begun to arrive, else after its response.
  virtual void finish() = 0;
  // Ends without another byte.
  virtual void abort() = 0;
  // Since when the client has had its turn to send; nothing while it is our turn.
  virtual std::optional<TimePoint> waiting_since() const = 0;
  // The seat it was given at its listener.
  virtual const void* seat() const = 0;
  // It sends a response that has no end.
  virtual bool streams() const = 0;
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
  Counters counters;
  GzipCache packed;  // bodies that several responses share
  std::uint64_t next_request = 1;
  std::set<Connection*> connections;
  bool closing = false;
  std::function<void()> drained;  // called once when closing and the last connection has ended

  void add(Connection& connection);
  void remove(Connection& connection);
  // Ends the connection that has waited longest for its client among those of one listener, so that
  // idle ones cannot keep others out. False: all are being answered.
  bool make_room(const void* seat);
  // Whether one more response without an end may begin at this listener.
  bool may_stream(const void* seat) const;
};

// What is known of a client when it arrives.
struct Arrival {
  Peer peer;
  std::string local_address;         // the literal it connected to; "" on a Unix socket
  std::shared_ptr<const void> seat;  // held as long as it counts against its listener's limit
};

}  // namespace gpuyard::http
