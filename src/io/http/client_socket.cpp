// Plain poll(2): one connection needs no event loop.
#include "io/http/client_socket.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <system_error>

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"
#include "io/http/origin.h"

namespace gpuyard::http {
namespace {

std::string text_of(const Proxy& proxy) {
  return "the proxy " + Endpoint::tcp(proxy.host, proxy.port).text();
}

// The files of trusted certificates of the distributions; the first that exists is used, unless
// SSL_CERT_FILE names another.
constexpr std::array<const char*, 5> kCaBundles = {
    "/etc/ssl/certs/ca-certificates.crt",                 // Debian, Ubuntu, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",                   // Fedora, RHEL
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // the same, newer
    "/etc/ssl/ca-bundle.pem",                             // SUSE
    "/etc/ssl/cert.pem",                                  // Alpine
};

Result<void> load_trusted_file(SSL_CTX* context, const std::string& file,
                               std::string_view named_by) {
  if (::access(file.c_str(), R_OK) != 0) return system_error("opening " + file).in(named_by);
  ::ERR_clear_error();
  if (::SSL_CTX_load_verify_file(context, file.c_str()) == 1) return {};
  return Error{Errc::invalid,
               fmt::format("{} contains no trusted certificates, although {} points to it: {}",
                           file, named_by, openssl_reason())};
}

Result<void> load_system_trust(SSL_CTX* context, bool others_too) {
  if (const char* file = std::getenv("SSL_CERT_FILE"); file != nullptr && *file != '\0') {
    return load_trusted_file(context, file, "SSL_CERT_FILE");
  }
  for (const char* file : kCaBundles) {
    if (::access(file, R_OK) == 0) return load_trusted_file(context, file, "the distribution");
  }
  if (others_too) return {};
  return Error{Errc::invalid,
               "no trusted certificates found on this machine: install the package "
               "ca-certificates, or set ca_file or SSL_CERT_FILE"};
}

Result<void> load_trust(SSL_CTX* context, const std::string& ca_file) {
  const bool own = !ca_file.empty();
  auto trusted = load_system_trust(context, own);
  if (!trusted || !own) return trusted;
  return load_trusted_file(context, ca_file, "ca_file");
}

// A name is also told to the server, an address is not (RFC 6066).
bool expect_host(SSL* ssl, const std::string& host) {
  X509_VERIFY_PARAM* verify = ::SSL_get0_param(ssl);
  if (::X509_VERIFY_PARAM_set1_ip_asc(verify, host.c_str()) == 1) return true;
  ::X509_VERIFY_PARAM_set_hostflags(verify, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  return ::SSL_set1_host(ssl, host.c_str()) == 1 &&
         SSL_set_tlsext_host_name(ssl, host.c_str()) == 1;
}

}  // namespace

Result<ClientSocket> ClientSocket::connect(const Endpoint& endpoint, TimePoint deadline,
                                           std::string_view from) {
  if (endpoint.kind == Endpoint::Kind::tls) return connect(endpoint.tls->origin, deadline);
  if (endpoint.tunnel != nullptr) {
    auto connection = endpoint.tunnel->open();
    if (!connection) return std::move(connection).error();
    return ClientSocket(endpoint, *std::move(connection));
  }
  ClientSocket socket(endpoint.text());
  if (auto opened = socket.open(endpoint, deadline, from); !opened) {
    return std::move(opened).error();
  }
  return socket;
}

Result<ClientSocket> ClientSocket::connect_plain(const Origin& origin, TimePoint deadline) {
  const Proxy direct{origin.host, origin.port};
  const Proxy& next = origin.proxy ? *origin.proxy : direct;
  const auto addresses = resolve(next.host, next.port, deadline);
  if (!addresses) return addresses.error();
  ClientSocket socket(origin.proxy ? text_of(next) : origin.text());
  Result<void> opened;
  auto left = static_cast<Duration::rep>(addresses->size());
  for (const Endpoint& address : *addresses) {
    // An address that swallows packets leaves time for the next one.
    const TimePoint now = BootClock::now();
    opened = socket.open(address, now + (deadline - now) / left--);
    if (opened) break;
  }
  if (!opened) return std::move(opened).error();
  if (!origin.proxy) return socket;
  if (origin.tls) {
    if (auto passed = socket.connect_through_proxy(origin, deadline); !passed) {
      return std::move(passed).error();
    }
  }
  socket.peer_name_ = fmt::format("{} through {}", origin.text(), text_of(next));
  return socket;
}

Result<void> ClientSocket::connect_through_proxy(const Origin& origin, TimePoint deadline) {
  constexpr std::size_t kMaxHeadBytes = std::size_t{16} * 1024;
  constexpr std::size_t kMaxReasonBytes = 100;
  const std::string authority = Endpoint::tcp(origin.host, origin.port).text();
  std::string request = fmt::format("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n", authority);
  if (!origin.proxy->authorization.empty()) {
    request += fmt::format("Proxy-Authorization: {}\r\n", origin.proxy->authorization);
  }
  if (auto sent = send_raw(request + "\r\n", deadline); !sent) return sent;
  std::string head;
  while (!head.ends_with("\r\n\r\n")) {
    std::array<char, 1> byte{};  // what follows the head is the origin's
    const auto got = receive_raw(byte, deadline);
    if (!got) return got.error();
    if (*got == 0) return invalid_response_error("the connection closed before the response");
    if (head.size() == kMaxHeadBytes)
      return invalid_response_error("the response header is too long");
    head += byte[0];
  }
  std::string_view line = std::string_view(head).substr(0, head.find("\r\n"));
  if (line.starts_with("HTTP/1.") && line.size() > 9 && line[9] == '2') return {};
  const std::size_t blank = std::min(line.find(' '), line.size());
  line.remove_prefix(std::min(blank + 1, line.size()));
  return Error{Errc::unavailable,
               fmt::format("{} refused to connect to {}: {}", peer_name_, authority,
                           printable(line.substr(0, kMaxReasonBytes)))};
}

Result<ClientSocket> ClientSocket::connect(const Origin& origin, TimePoint deadline) {
  auto socket = connect_plain(origin, deadline);
  if (!socket || !origin.tls) return socket;
  auto agreed = socket->start_tls(TlsClient::make(origin), deadline);
  if (!agreed) return std::move(agreed).error();
  return socket;
}

Result<PresentedCertificate> ClientSocket::fetch_certificate(const Origin& origin,
                                                             TimePoint deadline) {
  auto socket = connect_plain(origin, deadline);
  if (!socket) return std::move(socket).error();
  auto agreed = socket->start_tls(TlsClient::make_unverified(origin), deadline);
  if (!agreed) return std::move(agreed).error();
  return socket->tls_->presented_certificate();
}

Result<void> ClientSocket::start_tls(Result<std::unique_ptr<TlsClient>> tls, TimePoint deadline) {
  if (!tls) return std::move(tls).error();
  tls_ = *std::move(tls);
  for (;;) {
    const auto done = tls_->handshake();
    // Sent after a failure, too: it tells the server that we do not trust it.
    auto sent = send_raw(tls_->take(), deadline);
    if (!done) return done.error();
    if (!sent) return sent;
    if (*done) return {};
    if (auto fed = feed_tls(deadline); !fed) return fed;
  }
}

Result<void> ClientSocket::feed_tls(TimePoint deadline) {
  std::array<char, std::size_t{16} * 1024> space;
  const auto got = receive_raw(space, deadline);
  if (!got) return got.error();
  if (*got == 0)
    return invalid_response_error("the connection closed in the middle of the response");
  tls_->feed({space.data(), *got});
  return {};
}

Result<void> ClientSocket::send(std::string_view bytes, TimePoint deadline) {
  if (tls_ == nullptr) return send_raw(bytes, deadline);
  if (auto encrypted = tls_->encrypt(bytes); !encrypted) return encrypted;
  return send_raw(tls_->take(), deadline);
}

Result<std::size_t> ClientSocket::receive(std::span<char> space, TimePoint deadline) {
  if (tls_ == nullptr) return receive_raw(space, deadline);
  for (;;) {
    const auto got = tls_->decrypt(space);
    if (!got) return got.error();
    if (*got) return **got;
    if (auto sent = send_raw(tls_->take(), deadline); !sent) return std::move(sent).error();
    if (auto fed = feed_tls(deadline); !fed) return std::move(fed).error();
  }
}

Error ClientSocket::connect_error(int code) const {
  const std::string why = std::generic_category().message(code);
  if (code == EACCES || code == EPERM) {
    return Error{Errc::denied, fmt::format("not allowed to connect to {}: {}", peer_name_, why)};
  }
  return Error{Errc::unavailable, fmt::format("nothing is listening at {}", peer_name_), why};
}

Error ClientSocket::invalid_response_error(std::string_view why) const {
  if (tunnel_ != nullptr && tunnel_->has_ended()) return tunnel_->failure_reason();
  return Error{Errc::unavailable, fmt::format("invalid response from {}: {}", peer_name_, why)};
}

Result<void> ClientSocket::wait(short events, TimePoint deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - BootClock::now());
    pollfd entry{descriptor(), events, 0};
    const int timeout = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000));
    const int ready = left.count() > 0 ? ::poll(&entry, 1, timeout) : 0;
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return connect_error(errno);
    if (BootClock::now() >= deadline) {
      return Error{Errc::timed_out, fmt::format("no response from {} in time", peer_name_)};
    }
  }
}

Result<void> ClientSocket::open(const Endpoint& endpoint, TimePoint deadline,
                                std::string_view from) {
  const auto address = to_socket_address(endpoint);
  if (!address) return address.error();
  socket_.reset(::socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_) return connect_error(errno);
  if (!from.empty() && address->family() == AF_UNIX) {
    sockaddr_un own{};
    own.sun_family = AF_UNIX;
    from.copy(own.sun_path + 1, sizeof(own.sun_path) - 1);
    // A failure is ignored: a client without the name is like any other.
    [[maybe_unused]] const int named =
        ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&own),
               static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + from.size()));
  }
  while (::connect(socket_.get(), address->get(), address->length) != 0) {
    if (errno == EINPROGRESS) return finish_connecting(deadline);
    if (errno != EAGAIN && errno != EINTR) return connect_error(errno);
    // A Unix listener's queue is full, and there is nothing to poll for that.
    constexpr int kRetryDelayMs = 5;
    ::poll(nullptr, 0, kRetryDelayMs);
    if (BootClock::now() >= deadline) {
      return Error{Errc::timed_out, fmt::format("{} does not accept connections", peer_name_)};
    }
  }
  return {};
}

Result<void> ClientSocket::finish_connecting(TimePoint deadline) {
  if (auto connected = wait(POLLOUT, deadline); !connected) return connected;
  int code = 0;
  socklen_t length = sizeof code;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &code, &length);
  if (code != 0) return connect_error(code);
  return {};
}

Result<void> ClientSocket::send_raw(std::string_view bytes, TimePoint deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (auto writable = wait(POLLOUT, deadline); !writable) return writable;
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return {};  // refused early; receive() reads why
    } else if (errno != EINTR) {
      return connect_error(errno);
    }
  }
  return {};
}

Result<std::size_t> ClientSocket::receive_raw(std::span<char> space, TimePoint deadline) {
  for (;;) {
    if (auto readable = wait(POLLIN, deadline); !readable) return std::move(readable).error();
    const ssize_t got = ::recv(descriptor(), space.data(), space.size(), 0);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EAGAIN && errno != EINTR)
      return invalid_response_error(std::generic_category().message(errno));
  }
}

struct TlsClient::Parts {
  std::string peer_name;
  std::string pin;                  // "": the chain, the name and the dates decide
  bool skips_verification = false;  // any certificate is accepted
  std::unique_ptr<SSL_CTX, decltype(&::SSL_CTX_free)> context{nullptr, &::SSL_CTX_free};
  std::unique_ptr<SSL, decltype(&::SSL_free)> ssl{nullptr, &::SSL_free};
  BIO* in = nullptr;  // both are the SSL's
  BIO* out = nullptr;
};

TlsClient::TlsClient(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
TlsClient::~TlsClient() = default;

Result<std::unique_ptr<TlsClient::Parts>> TlsClient::make_parts(const Origin& origin) {
  auto parts = std::make_unique<Parts>();
  parts->peer_name = origin.text();
  if (start_openssl()) parts->context.reset(::SSL_CTX_new(::TLS_client_method()));
  if (!parts->context)
    return Error{Errc::internal, "OpenSSL cannot be initialised: " + openssl_reason()};
  SSL_CTX_set_min_proto_version(parts->context.get(), TLS1_2_VERSION);
  return parts;
}

Result<std::unique_ptr<TlsClient>> TlsClient::make_client(std::unique_ptr<Parts> parts,
                                                          const Origin& origin) {
  parts->ssl.reset(::SSL_new(parts->context.get()));
  parts->in = ::BIO_new(::BIO_s_mem());
  parts->out = ::BIO_new(::BIO_s_mem());
  ::SSL_set_bio(parts->ssl.get(), parts->in, parts->out);
  ::SSL_set_connect_state(parts->ssl.get());
  if (!expect_host(parts->ssl.get(), origin.host)) {
    return Error{Errc::invalid, fmt::format("'{}' is not a valid certificate name", origin.host)};
  }
  return std::unique_ptr<TlsClient>(new TlsClient(std::move(parts)));
}

Result<std::unique_ptr<TlsClient>> TlsClient::make(const Origin& origin) {
  auto parts = make_parts(origin);
  if (!parts) return std::move(parts).error();
  (*parts)->pin = origin.pin;
  if (!origin.pin.empty()) {
    if (is_pin(origin.pin)) return make_client(*std::move(parts), origin);
    return Error{
        Errc::invalid,
        fmt::format("'{}' is not a public key pin of the form sha256//<44 base64 characters>",
                    origin.pin)};
  }
  SSL_CTX* context = (*parts)->context.get();
  ::SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (auto trusted = load_trust(context, origin.ca_file); !trusted) {
    return std::move(trusted).error();
  }
  return make_client(*std::move(parts), origin);
}

// OpenSSL verifies, but the handshake goes on whatever the result.
Result<std::unique_ptr<TlsClient>> TlsClient::make_unverified(const Origin& origin) {
  auto parts = make_parts(origin);
  if (!parts) return std::move(parts).error();
  (*parts)->skips_verification = true;
  // A failure is ignored: the server's certificate is then shown as untrusted.
  [[maybe_unused]] const auto trusted = load_trust((*parts)->context.get(), origin.ca_file);
  return make_client(*std::move(parts), origin);
}

void TlsClient::feed(std::string_view bytes) {
  ::BIO_write(parts_->in, bytes.data(), static_cast<int>(bytes.size()));
}

std::string TlsClient::take() {
  std::string bytes(BIO_ctrl_pending(parts_->out), '\0');
  if (!bytes.empty()) ::BIO_read(parts_->out, bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}

Error TlsClient::tls_error(std::string_view doing) const {
  const long verdict = ::SSL_get_verify_result(parts_->ssl.get());
  const bool asked = parts_->pin.empty() && !parts_->skips_verification;
  if (asked && verdict != X509_V_OK) {
    return Error{Errc::denied,
                 fmt::format("{} is not trusted: {}; if its certificate is correct, set ca_file to "
                             "the certificate of its issuer",
                             parts_->peer_name, ::X509_verify_cert_error_string(verdict))};
  }
  return Error{Errc::unavailable, fmt::format("{} over TLS with {} failed: {}", doing,
                                              parts_->peer_name, openssl_reason())};
}

PresentedCertificate TlsClient::presented_certificate() const {
  PresentedCertificate shown;
  const X509* certificate = ::SSL_get0_peer_certificate(parts_->ssl.get());
  if (certificate != nullptr) shown.facts = facts_of(certificate);
  const long verdict = ::SSL_get_verify_result(parts_->ssl.get());
  if (verdict != X509_V_OK) shown.distrust_reason = ::X509_verify_cert_error_string(verdict);
  return shown;
}

Result<void> TlsClient::check_pin() const {
  if (parts_->pin.empty()) return {};
  const std::string shown = presented_certificate().facts.pin;
  if (shown == parts_->pin) return {};
  return Error{Errc::denied,
               fmt::format("{} is not trusted: its public key is {}, not {} as pinned; if its "
                           "owner has changed the key, pin the new one",
                           parts_->peer_name, shown, parts_->pin)};
}

Result<bool> TlsClient::handshake() {
  ::ERR_clear_error();
  const int done = ::SSL_do_handshake(parts_->ssl.get());
  if (done == 1) {
    if (auto same = check_pin(); !same) return std::move(same).error();
    return true;
  }
  if (::SSL_get_error(parts_->ssl.get(), done) == SSL_ERROR_WANT_READ) return false;
  return tls_error("agreeing");
}

Result<void> TlsClient::encrypt(std::string_view bytes) {
  while (!bytes.empty()) {
    ::ERR_clear_error();
    const int size = static_cast<int>(std::min<std::size_t>(bytes.size(), INT_MAX));
    const int wrote = ::SSL_write(parts_->ssl.get(), bytes.data(), size);
    if (wrote <= 0) return tls_error("sending");
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return {};
}

Result<std::optional<std::size_t>> TlsClient::decrypt(std::span<char> space) {
  ::ERR_clear_error();
  const int size = static_cast<int>(std::min<std::size_t>(space.size(), INT_MAX));
  const int got = ::SSL_read(parts_->ssl.get(), space.data(), size);
  if (got > 0) return std::optional(static_cast<std::size_t>(got));
  const int why = ::SSL_get_error(parts_->ssl.get(), got);
  if (why == SSL_ERROR_ZERO_RETURN) return std::optional<std::size_t>(0);
  if (why == SSL_ERROR_WANT_READ) return std::optional<std::size_t>();
  return tls_error("receiving");
}

}  // namespace gpuyard::http
