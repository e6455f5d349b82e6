// One connection's life: read a request, call the handler, write the response, again. Inner header;
// includes no Asio.
#pragma once

#include <memory>

#include "base/unique_fd.h"
#include "io/http/listener.h"

namespace gpuyard::http {

class Stream;

// Starts a session on site->io.
void serve(std::shared_ptr<ServerContext> site, std::unique_ptr<Stream> stream,
           IncomingConnection arrival);
void serve_socket(std::shared_ptr<ServerContext> site, UniqueFd socket, IncomingConnection arrival);

}  // namespace gpuyard::http
