#include "io/http/tls_server.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <climits>
#include <new>

#include <fmt/format.h>

#include "base/clock.h"
#include "io/http/openssl.h"

namespace gpuyard::http {
namespace {

// A buffer of OpenSSL's that grew larger than this for one answer is given back.
constexpr std::size_t kMaxRetainedBytes = std::size_t{4} * 1024;

// Handshake messages of a client after the handshake. It needs only one for each 2^24 records, to
// change the keys. Each costs us microseconds, and is small enough to be sent by the hundred.
constexpr int kMaxPostHandshakeMessages = 64;

Error tls_error(std::string_view doing) {
  return Error{Errc::invalid, fmt::format("{} over TLS failed: {}", doing, openssl_reason())};
}

}  // namespace

struct TlsServer::Parts {
  OpensslPtr<SSL, &::SSL_free> ssl;
  BIO* in = nullptr;  // both are the SSL's
  BIO* out = nullptr;
  std::size_t fed = 0;  // bytes, before the handshake was done
  bool agreed = false;
  int later_messages = 0;  // of the client's, that belong to handshakes

  static void count(int is_written, int, int content_type, const void*, std::size_t, SSL*,
                    void* parts) {
    auto& self = *static_cast<Parts*>(parts);
    const bool is_clients = is_written == 0 && content_type == SSL3_RT_HANDSHAKE;
    if (is_clients && self.agreed) ++self.later_messages;
  }
};

TlsServer::TlsServer(TlsServer&&) noexcept = default;
TlsServer& TlsServer::operator=(TlsServer&&) noexcept = default;
TlsServer::~TlsServer() = default;

TlsServer::TlsServer(const ServerIdentity& identity) : parts_(std::make_unique<Parts>()) {
  parts_->ssl.reset(::SSL_new(identity.context.get()));
  parts_->in = ::BIO_new(::BIO_s_mem());
  parts_->out = ::BIO_new(::BIO_s_mem());
  if (!parts_->ssl || parts_->in == nullptr || parts_->out == nullptr) throw std::bad_alloc();
  ::SSL_set_bio(parts_->ssl.get(), parts_->in, parts_->out);
  ::SSL_set_accept_state(parts_->ssl.get());
  ::SSL_set_msg_callback(parts_->ssl.get(), &Parts::count);
  SSL_set_msg_callback_arg(parts_->ssl.get(), parts_.get());
}

void TlsServer::feed(std::string_view bytes) {
  if (!parts_->agreed) parts_->fed += bytes.size();
  if (!bytes.empty()) ::BIO_write(parts_->in, bytes.data(), static_cast<int>(bytes.size()));
}

bool TlsServer::has_to_send() const {
  return BIO_ctrl_pending(parts_->out) > 0;
}

std::string TlsServer::take() {
  std::string bytes(BIO_ctrl_pending(parts_->out), '\0');
  if (!bytes.empty()) ::BIO_read(parts_->out, bytes.data(), static_cast<int>(bytes.size()));
  if (bytes.size() > kMaxRetainedBytes) {
    parts_->out = ::BIO_new(::BIO_s_mem());
    if (parts_->out == nullptr) throw std::bad_alloc();
    ::SSL_set0_wbio(parts_->ssl.get(), parts_->out);
  }
  return bytes;
}

Result<bool> TlsServer::handshake() {
  if (parts_->fed > kMaxHandshakeBytes) {
    return Error{Errc::invalid, fmt::format("the TLS handshake failed: received more than {} bytes",
                                            kMaxHandshakeBytes)};
  }
  ::ERR_clear_error();
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
  while (!bytes.empty()) {
    ::ERR_clear_error();
    const int size = static_cast<int>(std::min<std::size_t>(bytes.size(), INT_MAX));
    const int wrote = ::SSL_write(parts_->ssl.get(), bytes.data(), size);
    if (wrote <= 0) return tls_error("sending");
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return {};
}

Result<std::optional<std::size_t>> TlsServer::decrypt(std::span<char> space) {
  // OpenSSL would find out by an error, which costs a microsecond.
  if (BIO_ctrl_pending(parts_->in) == 0 && ::SSL_has_pending(parts_->ssl.get()) == 0)
    return std::optional<std::size_t>();
  ::ERR_clear_error();
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
  ::ERR_clear_error();
  if (parts_->agreed) ::SSL_shutdown(parts_->ssl.get());
}

std::optional<CertificateFacts> TlsServer::client_certificate() const {
  const X509* certificate = ::SSL_get0_peer_certificate(parts_->ssl.get());
  const bool verified = ::SSL_get_verify_result(parts_->ssl.get()) == X509_V_OK;
  if (!parts_->agreed || certificate == nullptr || !verified) return std::nullopt;
  return facts_of(certificate);
}

bool TlsServer::is_resumed() const {
  return ::SSL_session_reused(parts_->ssl.get()) == 1;
}

}  // namespace gpuyard::http
