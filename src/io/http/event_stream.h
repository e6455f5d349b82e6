// Server-sent events as the WHATWG standard spells them: what a handler answers to stream, and how
// an event becomes bytes. Knows no connection and no GPU.
//
//   class Ticks : public http::Feed { http::Chunk next() override { ... } };
//   respond.as_is(http::event_stream(std::make_shared<Ticks>(...)));
#pragma once

#include <memory>
#include <string_view>

#include "http/feed.h"
#include "http/message.h"

namespace gpuyard::http {

inline constexpr std::string_view kEventStream = "text/event-stream";

// A listener that loses its connection comes back after this long.
inline constexpr Duration kRetryAfter = std::chrono::seconds(2);

// How the stream begins: the client's retry time, and bytes that make proxies pass it on.
const Chunk& stream_opening();
// A comment, for a connection on which nothing else happens.
const Chunk& heartbeat();

// `id` is what a client presents as Last-Event-ID; "" leaves the one it has. `name` is the event's
// type. Neither has a line break; `data` may.
Chunk event_chunk(std::string_view name, std::string_view data, std::string_view id = "");

// 200 with this feed as its body.
Response event_stream(std::shared_ptr<Feed> feed);

}  // namespace gpuyard::http
