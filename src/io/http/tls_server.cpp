#include "io/http/tls_server.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <climits>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "io/http/openssl.h"

namespace gpuyard::http {
namespace {

// Handshake messages of a client after the handshake. It needs only one for each 2^24 records, to
// change the keys. Each costs us microseconds, and is small enough to be sent by the hundred.
constexpr int kMaxPostHandshakeMessages = 64;

Error tls_error(std::string_view doing) {
  return Error{Errc::invalid, fmt::format("{} over TLS failed: {}", doing, openssl_reason())};
}

// An old error would be reported as that of the next call. The queue is almost always empty, and
// clearing an empty one is slow in OpenSSL.
void clear_errors() {
  if (::ERR_peek_error() != 0) ::ERR_clear_error();
}

}  // namespace

struct TlsServer::Parts {
  OpensslPtr<SSL, &::SSL_free> ssl;
  std::string in;       // fed, and not taken by OpenSSL
  std::string out;      // written by OpenSSL, and not taken by the caller
  std::size_t fed = 0;  // bytes, before the handshake was done
  bool agreed = false;
  int later_messages = 0;  // of the client's, that belong to handshakes

  static void count(int is_written, int, int content_type, const void*, std::size_t, SSL*,
                    void* parts) {
    auto& self = *static_cast<Parts*>(parts);
    const bool is_clients = is_written == 0 && content_type == SSL3_RT_HANDSHAKE;
    if (is_clients && self.agreed) ++self.later_messages;
  }

  // The BIO between OpenSSL and these strings. OpenSSL calls it some twenty times for a request,
  // and its own BIO in memory takes twice as long.
  static int read(BIO* bio, char* space, int size) noexcept {
    auto& self = *static_cast<Parts*>(::BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    if (self.in.empty()) {
      BIO_set_retry_read(bio);
      return -1;
    }
    const std::size_t count = self.in.copy(space, static_cast<std::size_t>(size));
    self.in.erase(0, count);
    return static_cast<int>(count);
  }
  static int write(BIO* bio, const char* bytes, int size) noexcept {
    static_cast<Parts*>(::BIO_get_data(bio))->out.append(bytes, static_cast<std::size_t>(size));
    return size;
  }
  static long control(BIO*, int command, long, void*) noexcept {
    return command == BIO_CTRL_FLUSH ? 1 : 0;
  }
  static const BIO_METHOD* bio_method() {
    static const BIO_METHOD* const kMethod = [] {
      BIO_METHOD* made = ::BIO_meth_new(BIO_TYPE_SOURCE_SINK, "strings");
      if (made == nullptr) throw std::bad_alloc();
      ::BIO_meth_set_read(made, &Parts::read);
      ::BIO_meth_set_write(made, &Parts::write);
      ::BIO_meth_set_ctrl(made, &Parts::control);
      return made;
    }();
    return kMethod;
  }
};

TlsServer::TlsServer(TlsServer&&) noexcept = default;
TlsServer& TlsServer::operator=(TlsServer&&) noexcept = default;
TlsServer::~TlsServer() = default;

TlsServer::TlsServer(const ServerIdentity& identity) : parts_(std::make_unique<Parts>()) {
  parts_->ssl.reset(::SSL_new(identity.context.get()));
  BIO* bio = ::BIO_new(Parts::bio_method());
  if (!parts_->ssl || bio == nullptr) throw std::bad_alloc();
  ::BIO_set_data(bio, parts_.get());
  ::BIO_set_init(bio, 1);
  ::SSL_set_bio(parts_->ssl.get(), bio, bio);
  ::SSL_set_accept_state(parts_->ssl.get());
  ::SSL_set_msg_callback(parts_->ssl.get(), &Parts::count);
  SSL_set_msg_callback_arg(parts_->ssl.get(), parts_.get());
}

void TlsServer::feed(std::string_view bytes) {
  if (!parts_->agreed) parts_->fed += bytes.size();
  parts_->in += bytes;
}

bool TlsServer::has_to_send() const {
  return !parts_->out.empty();
}

std::string TlsServer::take() {
  return std::exchange(parts_->out, {});
}

Result<bool> TlsServer::handshake() {
  if (parts_->fed > kMaxHandshakeBytes) {
    return Error{Errc::invalid, fmt::format("the TLS handshake failed: received more than {} bytes",
                                            kMaxHandshakeBytes)};
  }
  clear_errors();
  const int done = ::SSL_do_handshake(parts_->ssl.get());
  if (done != 1) {
    if (::SSL_get_error(parts_->ssl.get(), done) == SSL_ERROR_WANT_READ) return false;
    return tls_error("agreeing");
  }
  parts_->agreed = true;
  // A certificate that came with a ticket was verified long ago.
  const auto shown = client_certificate();
  if (!shown || wall_now() < shown->not_after) return true;
  return Error{Errc::denied, "the client's certificate has expired"};
}

Result<void> TlsServer::encrypt(std::string_view bytes) {
  // Each record of 16 KiB gets at most 29 bytes more.
  parts_->out.reserve(parts_->out.size() + bytes.size() + bytes.size() / 256 + 64);
  while (!bytes.empty()) {
    clear_errors();
    const int size = static_cast<int>(std::min<std::size_t>(bytes.size(), INT_MAX));
    const int wrote = ::SSL_write(parts_->ssl.get(), bytes.data(), size);
    if (wrote <= 0) return tls_error("sending");
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return {};
}

Result<std::optional<std::size_t>> TlsServer::decrypt(std::span<char> space) {
  // OpenSSL would find out by an error, which costs a microsecond.
  if (parts_->in.empty() && ::SSL_has_pending(parts_->ssl.get()) == 0)
    return std::optional<std::size_t>();
  clear_errors();
  const int size = static_cast<int>(std::min<std::size_t>(space.size(), INT_MAX));
  const int got = ::SSL_read(parts_->ssl.get(), space.data(), size);
  if (parts_->later_messages > kMaxPostHandshakeMessages) {
    return Error{Errc::invalid, "receiving over TLS failed: the client keeps renegotiating"};
  }
  if (got > 0) return std::optional(static_cast<std::size_t>(got));
  const int why = ::SSL_get_error(parts_->ssl.get(), got);
  if (why == SSL_ERROR_ZERO_RETURN) return std::optional<std::size_t>(0);
  if (why == SSL_ERROR_WANT_READ) return std::optional<std::size_t>();
  return tls_error("receiving");
}

void TlsServer::send_close_notify() {
  clear_errors();
  if (parts_->agreed) ::SSL_shutdown(parts_->ssl.get());
}

std::optional<CertificateFacts> TlsServer::client_certificate() const {
  const X509* certificate = ::SSL_get0_peer_certificate(parts_->ssl.get());
  const bool verified = ::SSL_get_verify_result(parts_->ssl.get()) == X509_V_OK;
  if (!parts_->agreed || certificate == nullptr || !verified) return std::nullopt;
  return facts_of(certificate);
}

}  // namespace gpuyard::http
