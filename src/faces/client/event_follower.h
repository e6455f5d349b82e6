// Follows the daemon's events, also across restarts of the daemon: each once and in order, or it
// says that some are lost. Knows no terminal.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "faces/protocol/events.h"
#include "io/http/client.h"
#include "io/http/endpoint.h"

namespace gpuyard::client {

struct FollowerEvent {
  enum class Kind : std::uint8_t {
    event,
    away,  // the daemon does not answer; it is called again until it does
    back,
    lost,   // the daemon does not know what followed the last event: all that it knows comes now
    ended,  // all is sent, and the request does not follow
  };
  Kind kind = Kind::event;
  http::ServerEvent event = {};  // of `event`
  Error error = {};              // of `away`
};

// Thread: any, one at a time.
class EventFollower {
 public:
  // `request` says where to begin; nothing: with what happens from now on.
  EventFollower(http::Endpoint, protocol::EventsRequest request);

  // The next event; nothing if none came within `wait`, beyond which a connection that is being
  // made may take two seconds, and a login by ssh its own time. An error is the end: the daemon
  // refuses, or was never there.
  Result<std::optional<FollowerEvent>> next(Duration wait);

  // The id of the last event; "": none.
  const std::string& last_event_id() const { return last_event_id_; }

 private:
  Result<void> open();
  Result<std::optional<FollowerEvent>> read(TimePoint end);
  Result<std::optional<FollowerEvent>> on_disconnect(Error);
  std::optional<FollowerEvent> accept_event(http::ServerEvent);

  http::Endpoint daemon_;
  protocol::EventsRequest request_;
  std::optional<http::EventReader> reader_;
  std::string last_event_id_;
  TimePoint retry_at_;
  bool was_connected_ = false;
  bool disconnected_ = false;
  std::optional<Result<std::optional<FollowerEvent>>> final_result_;  // an end stays one
};

}  // namespace gpuyard::client
