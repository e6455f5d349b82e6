// TLS over another stream: the handshake with a client that has no slot yet, and then a stream like
// any other. Handshakes take turns, one step in a turn of the loop: otherwise many of them would
// delay the other clients. Inner header; includes no Asio.
#pragma once

#include <memory>

#include "base/unique_fd.h"
#include "io/http/connection_quotas.h"
#include "io/http/listener.h"
#include "io/http/loop.h"
#include "io/http/server_identity.h"
#include "io/http/tls_server.h"

namespace gpuyard::http {

class Stream;

// Starts a handshake on context->io, for which there is room. When it is done, the connection gets
// a slot and a session, or a refusal if there is no slot. The identity need not outlive the call.
void start_handshake(std::shared_ptr<ServerContext> context, std::unique_ptr<Stream> stream,
                     const ServerIdentity& identity, const ConnectionSlots& slots,
                     IncomingConnection incoming);
void start_socket_handshake(std::shared_ptr<ServerContext> context, UniqueFd socket,
                            const ServerIdentity& identity, const ConnectionSlots& slots,
                            IncomingConnection incoming);

// The stream of a session after the handshake. finish() takes effect with the read() that must
// follow it. Long writes take the turns of `group`.
std::unique_ptr<Stream> open_tls_stream(IoLoop& loop, std::unique_ptr<Stream> inner, TlsServer tls,
                                        QuotaGroup group);

}  // namespace gpuyard::http
