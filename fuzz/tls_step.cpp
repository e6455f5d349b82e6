// Sends any bytes, cut anywhere, to a server's end of TLS, before and after a handshake.
//
// The first byte chooses: bit 0, whether a client has agreed with the server before; bits 1 to 7,
// how many bytes come at a time. Behind a handshake the bytes are the content of records, each with
// a first byte that says whether it is sealed by the client or sent as it is.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "io/http/tls_client_for_tests.h"
#include "require.h"

namespace gpuyard::http {
namespace {

using fuzz::require;

// Made once: a handshake costs enough already.
const ServerIdentity& identity() {
  static const IdentityForTests files;
  static const std::shared_ptr<const ServerIdentity> loaded = files.load();
  return *loaded;
}

void run_handshake(std::string_view bytes, std::size_t at_a_time) {
  TlsServer server(identity());
  std::size_t answered = 0;
  while (!bytes.empty()) {
    server.feed(bytes.substr(0, at_a_time));
    bytes.remove_prefix(std::min(at_a_time, bytes.size()));
    const auto done = server.handshake();
    answered += server.take().size();
    require(!done || !*done, "no handshake succeeds by chance");
    if (!done) break;
  }
  require(answered < kMaxHandshakeBytes, "an answer is short");
  require(!server.client_certificate(), "a client without a certificate is anonymous");
}

void run_session(std::string_view bytes, std::size_t at_a_time) {
  TlsClientForTests client;
  TlsServer server(identity());
  require(agree(client, server), "a client of ours gets in");
  char space[1024];
  while (bytes.size() > 1) {
    const bool seals = (bytes.front() & 1) != 0;
    const std::string_view part = bytes.substr(1, at_a_time);
    bytes.remove_prefix(1 + part.size());
    server.feed(seals ? client.encrypted(part) : std::string(part));
    auto got = server.decrypt(space);
    while (got && got->value_or(0) > 0) got = server.decrypt(space);
    client.feed(server.take());
    if (!got) break;
  }
  server.send_close_notify();
}

}  // namespace
}  // namespace gpuyard::http

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t at_a_time = 1 + (data[0] >> 1U);
  if ((data[0] & 1) != 0) {
    gpuyard::http::run_session(bytes, at_a_time);
  } else {
    gpuyard::http::run_handshake(bytes, at_a_time);
  }
  return 0;
}
