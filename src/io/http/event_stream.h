// Server-sent events as the WHATWG standard spells them: what a handler answers to stream, and how
// an event becomes bytes. Knows no connection and no GPU.
//
//   class Ticks : public http::ResponseStream { http::Chunk next() override { ... } };
//   respond.send(http::event_stream(std::make_shared<Ticks>(...)));
#pragma once

#include <memory>
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

}  // namespace gpuyard::http
