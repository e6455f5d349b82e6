// The far end of a tunnel's connection.
#pragma once

#include <chrono>

#include "base/clock.h"
#include "base/result.h"
#include "io/http/endpoint.h"

namespace gpuyard::http {

struct RelayLimits {
  Duration connect_timeout = std::chrono::seconds(2);
  Duration drain_timeout = std::chrono::seconds(1);  // for what is left when one side has ended
  // The longest time without a byte in either direction. A daemon writes more often to any stream.
  Duration idle_timeout = std::chrono::minutes(10);
};

// The far end: connects to the server, greets on `out`, and passes bytes on, from `in` to the
// server and from the server to `out`, until either side ends. If only `in` ends, the server may
// still answer for a moment. Blocks for as long as that takes. Errors: the server was not reached.
Result<void> relay(const Endpoint& server, int in, int out, const RelayLimits& = {});

// Whether a client's own address is the one that relay() takes, so that a server recognises a
// relay. A client gains nothing by taking it: see api/leases.cpp.
bool is_relay(const SocketAddress& client);

}  // namespace gpuyard::http
