// What the daemon has kept of its earlier lives, and reads after its start. Until then an empty
// list, or "there is none", would say more than is known.
#pragma once

#include <optional>

#include "http/message.h"
#include "protocol/route.h"

namespace gpuyard::api {

struct Context;

// Whether the answers of a route are about it, so that they may have to wait.
bool is_about_what_is_kept(const protocol::RouteInfo&);

// Returns the answer to a call of a route about what is kept, while that is still being read: 503,
// with Retry-After, and with protocol::kReadingField if it will soon be over. Nothing once it is
// read, and for routes about the driver, the configuration or this life of the daemon.
std::optional<http::Response> not_read_yet(const Context&, const protocol::RouteInfo&);

}  // namespace gpuyard::api
