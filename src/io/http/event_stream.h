// Server-sent events as the WHATWG standard spells them: what a handler answers to stream, and how
// an event becomes bytes. Knows no connection and no GPU.
//
//   class Ticks : public http::ResponseStream { http::Chunk next() override { ... } };
//   respond.send(http::event_stream(std::make_shared<Ticks>(...)));
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "io/http/message.h"
#include "io/http/response_stream.h"

namespace gpuyard::http {

inline constexpr std::string_view kEventStream = "text/event-stream";

// The pause of a client that has lost its connection before it reconnects.
inline constexpr Duration kClientRetryDelay = std::chrono::seconds(2);

// The beginning of the stream: the client's retry time, and bytes that make proxies pass it on.
const Chunk& stream_opening();
// A comment, for a connection on which nothing else happens.
const Chunk& heartbeat();

// `id` is what a client presents as Last-Event-ID; "" leaves the one it has. `name` is the event's
// type. Neither has a line break; `data` may.
Chunk event_chunk(std::string_view name, std::string_view data, std::string_view id = "");

// 200 with this stream as its body.
Response event_stream(std::shared_ptr<ResponseStream> stream);

// Bytes of a text/event-stream to events, as the WHATWG standard reads them. Knows no connection.

struct ServerEvent {
  std::string name;  // "message" where the server gives none
  std::string id;    // the last one that the server gave, with this event or before
  std::string data;

  friend bool operator==(const ServerEvent&, const ServerEvent&) = default;
};

inline constexpr std::size_t kMaxEventBytes = std::size_t{8} * 1024 * 1024;

class EventParser {
 public:
  explicit EventParser(std::size_t max_bytes = kMaxEventBytes) : max_bytes_(max_bytes) {}

  void feed(std::string_view bytes);
  // The next event that has come in full.
  std::optional<ServerEvent> take();
  // Whether a line or the data of one event is longer than allowed; nothing more is read then.
  bool has_overflowed() const { return overflowed_; }

 private:
  void parse_line(std::string_view line);
  void dispatch();

  std::size_t max_bytes_;
  std::string line_;
  bool after_return_ = false;  // a line feed now belongs to the line before
  bool first_line_ = true;
  bool overflowed_ = false;
  std::string name_;
  std::string data_;
  std::string id_;
  std::deque<ServerEvent> events_;
};

}  // namespace gpuyard::http
