// One connection's life: read a request, call the handler, write the response, again. Inner header;
// includes no Asio.
#pragma once

#include <memory>

#include "base/unique_fd.h"
#include "io/http/listener.h"

namespace gpuyard::http {

class Stream;

// Starts a session on context->io.
void begin_session(std::shared_ptr<ServerContext> context, std::unique_ptr<Stream> stream,
                   IncomingConnection incoming);
void begin_socket_session(std::shared_ptr<ServerContext> context, UniqueFd socket,
                          IncomingConnection incoming);

}  // namespace gpuyard::http
