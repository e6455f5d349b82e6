// Reads a server's certificate and key, and sets OpenSSL up for them.
#include "io/http/server_identity.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "base/files.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/try.h"
#include "io/http/openssl.h"

namespace gpuyard::http {
namespace {

using PemBio = OpensslPtr<BIO, &::BIO_free>;
using PrivateKey = OpensslPtr<EVP_PKEY, &::EVP_PKEY_free>;
using Chain = std::vector<OpensslPtr<X509, &::X509_free>>;

constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;
constexpr int kMinRsaBits = 2048;
constexpr int kMaxFastRsaBits = 3072;

Error identity_error(const std::string& file, std::string_view why_and_what_to_do,
                     std::string hint = {}) {
  return Error{Errc::invalid, fmt::format("{} {}", file, why_and_what_to_do), "", std::move(hint)};
}

PemBio pem_bio(std::string_view text) {
  return PemBio(::BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Only root creates files for the package's service. Another user would get files of their own.
std::string init_command() {
  return Environment::current().system_service ? "sudo gpuyard tls init" : "gpuyard tls init";
}

// Opening anything but a regular file might block without end. `if_missing`: the command that
// creates the file; "": there is none.
Result<std::string> read_pem(const std::string& file,
                             const std::string& if_missing = init_command()) {
  const auto info = stat_file(file);
  if (!info) {
    return identity_error(file, fmt::format("cannot be read ({})", info.error().text()),
                          if_missing);
  }
  if (!S_ISREG(info->st_mode)) return identity_error(file, "is not a regular file; set a PEM file");
  auto text = read_file(file, kMaxFileBytes);
  if (!text) {
    return identity_error(file,
                          fmt::format("cannot be read ({}); make it readable for the daemon's user",
                                      text.error().text()));
  }
  return text;
}

Result<std::string> read_key_pem(const std::string& file) {
  auto text = read_pem(file);
  if (!text) return text;
  const auto info = stat_file(file);
  if (!info || (info->st_mode & (S_IRWXO | S_IWGRP)) == 0) return text;
  return identity_error(
      file,
      fmt::format("contains a private key, but its mode {:04o} lets others read it",
                  info->st_mode & 07777U),
      fmt::format("chmod 0600 {}  # and create a new key if others had access",
                  quote_shell_word(file)));
}

Result<Chain> parse_chain(const std::string& file, std::string_view text) {
  const PemBio bio = pem_bio(text);
  Chain chain;
  ::ERR_clear_error();
  while (X509* one = ::PEM_read_bio_X509(bio.get(), nullptr, refuse_passphrase, nullptr)) {
    chain.emplace_back(one);
  }
  // OpenSSL says this at the end of each file, too.
  const bool at_end = ERR_GET_REASON(::ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (!at_end) {
    return identity_error(
        file, fmt::format("contains a damaged certificate ({}); copy it again", openssl_reason()));
  }
  if (!chain.empty()) return chain;
  return identity_error(
      file, "contains no PEM certificate, which begins with '-----BEGIN CERTIFICATE-----'");
}

Result<PrivateKey> parse_key(const std::string& file, std::string_view text) {
  ::ERR_clear_error();
  const PemBio bio = pem_bio(text);
  PrivateKey key(::PEM_read_bio_PrivateKey(bio.get(), nullptr, refuse_passphrase, nullptr));
  if (key) return key;
  if (text.find("ENCRYPTED") != text.npos) {
    return identity_error(
        file,
        "contains a key with a passphrase, which the daemon cannot enter; store the "
        "key without one");
  }
  return identity_error(
      file, fmt::format(
                "contains no PEM private key ({}), which begins with '-----BEGIN PRIVATE KEY-----'",
                openssl_reason()));
}

Result<void> check_dates(const IdentityFiles& files, const CertificateFacts& facts, WallTime now) {
  const std::string& file = files.certificate;
  if (now >= facts.not_after) {
    return identity_error(
        file, fmt::format("expired at {}; renew the certificate", to_rfc3339(facts.not_after)));
  }
  if (now < facts.not_before && !files.is_generated) {
    return identity_error(file, fmt::format("is not valid before {}; check this machine's clock",
                                            to_rfc3339(facts.not_before)));
  }
  return {};
}

// Checks that key and certificate belong together.
Result<void> check_pair(const IdentityFiles& files, const Chain& chain, EVP_PKEY* key) {
  const auto fits = [key](const auto& one) {
    return ::EVP_PKEY_eq(::X509_get0_pubkey(one.get()), key) == 1;
  };
  if (fits(chain.front())) return {};
  if (std::ranges::any_of(chain, fits)) {
    return identity_error(
        files.certificate,
        fmt::format("has the certificate of the key {} after others; put it first", files.key));
  }
  return identity_error(
      files.key,
      fmt::format(
          "is not the key of the certificate {}; use a certificate and key that belong together",
          files.certificate));
}

// Checks the kind of the key, which decides the cost of a handshake.
Result<void> check_kind(const std::string& file, EVP_PKEY* key,
                        std::vector<std::string>& warnings) {
  const int kind = ::EVP_PKEY_get_base_id(key);
  const int bits = ::EVP_PKEY_get_bits(key);
  if (kind == EVP_PKEY_RSA && bits >= kMinRsaBits) {
    if (bits > kMaxFastRsaBits) {
      warnings.push_back(
          fmt::format("{} is an RSA key of {} bits, which makes handshakes ten times slower than "
                      "P-256; use a P-256 key",
                      file, bits));
    }
    return {};
  }
  if (kind == EVP_PKEY_ED25519) {
    warnings.push_back(fmt::format("{} is an Ed25519 key, which browsers do not accept", file));
    return {};
  }
  std::array<char, 64> group{};
  if (kind == EVP_PKEY_EC) ::EVP_PKEY_get_group_name(key, group.data(), group.size(), nullptr);
  const std::string_view curve = group.data();
  if (curve == "prime256v1" || curve == "secp384r1") return {};
  return identity_error(file, "is of a type that clients do not accept; use a P-256 key");
}

void add_chain_warnings(const std::string& file, const Chain& chain, const CertificateFacts& facts,
                        std::vector<std::string>& warnings) {
  if (facts.names.empty()) {
    warnings.push_back(fmt::format(
        "{} has no subject alternative names, so clients do not accept it for any host", file));
  }
  for (std::size_t i = 1; i < chain.size(); ++i) {
    if (::X509_check_issued(chain[i].get(), chain[i - 1].get()) == X509_V_OK) continue;
    warnings.push_back(
        fmt::format("in {}, certificate {} did not sign the one before it; clients may not be able "
                    "to verify the chain",
                    file, i + 1));
  }
}

// Mozilla's "intermediate", without the suites that need parameters for Diffie-Hellman.
constexpr const char* kTls12Suites =
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:"
    "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";
constexpr const char* kGroups = "X25519:P-256:P-384";
constexpr std::string_view kHttp11 = "\x08http/1.1";  // with its length, as ALPN has it
constexpr std::size_t kTicketKeyBytes = 80;           // OpenSSL's: a name and two keys

int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* size,
                    const unsigned char* offered, unsigned int offered_size, void*) {
  const auto* ours = reinterpret_cast<const unsigned char*>(kHttp11.data());
  unsigned char* found = nullptr;
  const int verdict = ::SSL_select_next_proto(
      &found, size, ours, static_cast<unsigned int>(kHttp11.size()), offered, offered_size);
  *chosen = found;
  // A client that speaks only other protocols means another server.
  return verdict == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

bool restrict_to_modern(SSL_CTX* context) {
  ::SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);  // an idle connection needs none
  SSL_CTX_set_read_ahead(context, 1);  // a record's head and the rest of it in one step
  ::SSL_CTX_set_alpn_select_cb(context, &choose_protocol, nullptr);
  return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
         ::SSL_CTX_set_cipher_list(context, kTls12Suites) == 1 &&
         SSL_CTX_set1_groups_list(context, kGroups) == 1;
}

// The client's ticket holds the whole session; the server stores none.
bool set_up_tickets(ServerIdentity& identity, const ServerIdentity* former, WallTime now) {
  SSL_CTX* context = identity.context.get();
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  ::SSL_CTX_set_num_tickets(context, 1);
  // They are also replaced if the clock was set back.
  const bool fresh = former != nullptr && now >= former->tickets_since &&
                     now - former->tickets_since < kTicketKeyLifetime;
  if (fresh) {
    identity.ticket_keys = former->ticket_keys;
    identity.tickets_since = former->tickets_since;
  } else {
    std::string keys(kTicketKeyBytes, '\0');
    auto* bytes = reinterpret_cast<unsigned char*>(keys.data());
    if (::RAND_bytes(bytes, static_cast<int>(keys.size())) != 1) return false;
    identity.ticket_keys = std::make_shared<const std::string>(std::move(keys));
    identity.tickets_since = now;
  }
  // OpenSSL copies them, though it asks for a pointer to what may change.
  std::string copy = *identity.ticket_keys;
  return SSL_CTX_set_tlsext_ticket_keys(context, copy.data(), copy.size()) == 1;
}

// A ticket holds the client's certificate as it was verified. One that was verified against other
// roots resumes nothing here.
bool separate_tickets(SSL_CTX* context, std::string_view trusted) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned int size = 0;
  return ::EVP_Digest(trusted.data(), trusted.size(), hash.data(), &size, ::EVP_sha256(),
                      nullptr) == 1 &&
         ::SSL_CTX_set_session_id_context(context, hash.data(), size) == 1;
}

Result<void> request_certificates(SSL_CTX* context, const std::string& file) {
  ::ERR_clear_error();
  STACK_OF(X509_NAME)* names = ::SSL_load_client_CA_file(file.c_str());
  if (names == nullptr || ::SSL_CTX_load_verify_file(context, file.c_str()) != 1) {
    sk_X509_NAME_pop_free(names, ::X509_NAME_free);
    return identity_error(file,
                          fmt::format("contains no certificates to verify clients with ({}); set "
                                      "the PEM file of the issuing authority",
                                      openssl_reason()));
  }
  ::SSL_CTX_set_client_CA_list(context, names);
  ::SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);  // a client without one is let in
  return {};
}

// The checked contents of the files.
struct Credentials {
  Chain chain;
  PrivateKey key;
};

Result<Credentials> read_credentials(const IdentityFiles& files, WallTime now,
                                     ServerIdentity& identity) {
  const auto chain_text = GPUYARD_TRY(read_pem(files.certificate));
  auto chain = GPUYARD_TRY(parse_chain(files.certificate, chain_text));
  const auto key_text = GPUYARD_TRY(read_key_pem(files.key));
  auto key = GPUYARD_TRY(parse_key(files.key, key_text));
  X509* leaf = chain.front().get();
  identity.facts = facts_of(leaf);
  GPUYARD_TRY(check_pair(files, chain, key.get()));
  GPUYARD_TRY(check_dates(files, identity.facts, now));
  if (::X509_check_purpose(leaf, X509_PURPOSE_SSL_SERVER, 0) != 1) {
    return identity_error(files.certificate,
                          "is not a server certificate; get one with serverAuth");
  }
  GPUYARD_TRY(check_kind(files.key, key.get(), identity.warnings));
  add_chain_warnings(files.certificate, chain, identity.facts, identity.warnings);
  return Credentials{std::move(chain), std::move(key)};
}

bool use_credentials(SSL_CTX* context, const Credentials& ours) {
  bool taken = ::SSL_CTX_use_certificate(context, ours.chain.front().get()) == 1 &&
               ::SSL_CTX_use_PrivateKey(context, ours.key.get()) == 1;
  for (std::size_t i = 1; i < ours.chain.size(); ++i) {
    taken = taken && SSL_CTX_add1_chain_cert(context, ours.chain[i].get()) == 1;
  }
  return taken;
}

}  // namespace

Result<std::shared_ptr<const ServerIdentity>> load_identity(
    const IdentityFiles& files, WallTime now, const std::shared_ptr<const ServerIdentity>& former) {
  auto identity = std::make_shared<ServerIdentity>();
  if (start_openssl()) {
    identity->context.reset(::SSL_CTX_new(::TLS_server_method()), &::SSL_CTX_free);
  }
  if (!identity->context)
    return Error{Errc::internal, "OpenSSL cannot be initialised: " + openssl_reason()};
  SSL_CTX* context = identity->context.get();
  const auto credentials = GPUYARD_TRY(read_credentials(files, now, *identity));
  ::ERR_clear_error();
  if (!use_credentials(context, credentials)) {
    return identity_error(
        files.certificate,
        fmt::format("cannot be used with TLS ({}); get one with a P-256 key and SHA-256",
                    openssl_reason()));
  }
  std::string trusted;
  if (!files.client_ca.empty()) {
    auto text = read_pem(files.client_ca, "");
    if (!text) return Error(text.error()).in("tls.client_ca");
    GPUYARD_TRY(request_certificates(context, files.client_ca));
    identity->requests_certificates = true;
    trusted = *std::move(text);
  }
  const bool ready = restrict_to_modern(context) && set_up_tickets(*identity, former.get(), now) &&
                     separate_tickets(context, trusted);
  if (!ready) return Error{Errc::internal, "OpenSSL cannot be set up: " + openssl_reason()};
  return std::shared_ptr<const ServerIdentity>(std::move(identity));
}

}  // namespace gpuyard::http
