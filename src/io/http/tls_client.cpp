#include "io/http/tls_client.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "base/files.h"
#include "base/try.h"
#include "io/http/openssl.h"

namespace gpuyard::http {
namespace {

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

// An intermediate certificate counts as well as a root: Kubernetes' own clients accept both.
Result<void> load_trusted_pem(SSL_CTX* context, std::string_view pem) {
  X509_STORE* store = ::SSL_CTX_get_cert_store(context);
  ::X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN);
  const OpensslPtr<BIO, &::BIO_free> bio(
      ::BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  ::ERR_clear_error();
  std::size_t count = 0;
  while (X509* next = ::PEM_read_bio_X509(bio.get(), nullptr, refuse_passphrase, nullptr)) {
    const OpensslPtr<X509, &::X509_free> certificate(next);
    if (::X509_STORE_add_cert(store, certificate.get()) == 1) ++count;
  }
  // OpenSSL says this at the end of each text, too.
  const bool at_end = ERR_GET_REASON(::ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (at_end && count > 0) return {};
  return Error{Errc::invalid, at_end
                                  ? "the CA contains no PEM certificate, which begins with "
                                    "'-----BEGIN CERTIFICATE-----'"
                                  : "the CA contains a damaged certificate: " + openssl_reason()};
}

Result<void> load_trust(SSL_CTX* context, const Origin& origin) {
  if (origin.ca_pem) return load_trusted_pem(context, *origin.ca_pem);
  const bool own = !origin.ca_file.empty();
  auto trusted = load_system_trust(context, own);
  if (!trusted || !own) return trusted;
  return load_trusted_file(context, origin.ca_file, "ca_file");
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

struct TlsClient::Parts {
  std::string peer_name;
  std::string pin;                  // "": the chain, the name and the dates decide
  bool skips_verification = false;  // any certificate is accepted
  bool has_ca_pem = false;          // ca_file would change nothing
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
  parts->has_ca_pem = origin.ca_pem.has_value();
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
  auto parts = GPUYARD_TRY(make_parts(origin));
  parts->pin = origin.pin;
  if (!origin.pin.empty()) {
    if (is_pin(origin.pin)) return make_client(std::move(parts), origin);
    return Error{
        Errc::invalid,
        fmt::format("'{}' is not a public key pin of the form sha256//<44 base64 characters>",
                    origin.pin)};
  }
  SSL_CTX* context = parts->context.get();
  ::SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  GPUYARD_TRY(load_trust(context, origin));
  return make_client(std::move(parts), origin);
}

// OpenSSL verifies, but the handshake goes on whatever the result.
Result<std::unique_ptr<TlsClient>> TlsClient::make_unverified(const Origin& origin) {
  auto parts = GPUYARD_TRY(make_parts(origin));
  parts->skips_verification = true;
  // A failure is ignored: the server's certificate is then shown as untrusted.
  [[maybe_unused]] const auto trusted = load_trust(parts->context.get(), origin);
  return make_client(std::move(parts), origin);
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
                 fmt::format("{} is not trusted: {}{}", parts_->peer_name,
                             ::X509_verify_cert_error_string(verdict),
                             parts_->has_ca_pem ? ""
                                                : "; if its certificate is correct, set ca_file to "
                                                  "the certificate of its issuer")};
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
    GPUYARD_TRY(check_pin());
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
