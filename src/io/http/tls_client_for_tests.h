// A client's end of TLS on memory, with the options that a test wants, and identities of servers.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/scratch_directory_for_tests.h"
#include "io/http/openssl.h"
#include "io/http/self_signed.h"
#include "io/http/server_identity.h"
#include "io/http/tls_server.h"
#include "io/http/tls_server_for_tests.h"

namespace gpuyard::http {

// A ticket, with what the client remembers of its session.
using ClientSession = OpensslPtr<SSL_SESSION, &::SSL_SESSION_free>;

class TlsClientForTests {
 public:
  struct Options {
    int newest = 0;                          // version of TLS; 0: what OpenSSL has
    const TestCertificate* shows = nullptr;  // to a server that asks
    SSL_SESSION* resumes = nullptr;          // a ticket of an earlier connection
    std::string protocols = {};              // for ALPN, with lengths
  };

  TlsClientForTests() : TlsClientForTests(Options()) {}
  explicit TlsClientForTests(const Options& options) {
    start_openssl();
    context_.reset(::SSL_CTX_new(::TLS_client_method()));
    ::SSL_CTX_set_security_level(context_.get(), 0);  // else it offers no old version at all
    if (options.newest != 0) SSL_CTX_set_max_proto_version(context_.get(), options.newest);
    if (options.shows != nullptr) {
      ::SSL_CTX_use_certificate(context_.get(), options.shows->certificate.get());
      ::SSL_CTX_use_PrivateKey(context_.get(), options.shows->key.get());
    }
    ssl_.reset(::SSL_new(context_.get()));
    in_ = ::BIO_new(::BIO_s_mem());
    out_ = ::BIO_new(::BIO_s_mem());
    ::SSL_set_bio(ssl_.get(), in_, out_);
    ::SSL_set_connect_state(ssl_.get());
    const auto* protocols = reinterpret_cast<const unsigned char*>(options.protocols.data());
    if (!options.protocols.empty()) {
      ::SSL_set_alpn_protos(ssl_.get(), protocols,
                            static_cast<unsigned int>(options.protocols.size()));
    }
    if (options.resumes != nullptr) ::SSL_set_session(ssl_.get(), options.resumes);
  }

  // OpenSSL takes a session for broken if its connection ended without a close_notify.
  ~TlsClientForTests() {
    ::SSL_set_shutdown(ssl_.get(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
  }
  TlsClientForTests(const TlsClientForTests&) = delete;
  TlsClientForTests& operator=(const TlsClientForTests&) = delete;

  void feed(std::string_view bytes) {
    if (!bytes.empty()) ::BIO_write(in_, bytes.data(), static_cast<int>(bytes.size()));
  }
  std::string take() {
    std::string bytes(BIO_ctrl_pending(out_), '\0');
    if (!bytes.empty()) ::BIO_read(out_, bytes.data(), static_cast<int>(bytes.size()));
    return bytes;
  }
  // Takes the next step; true when it is done.
  bool handshake() {
    ::ERR_clear_error();
    return ::SSL_do_handshake(ssl_.get()) == 1;
  }
  // The reason why the last call failed.
  static std::string reason() { return openssl_reason(); }
  std::string encrypted(std::string_view text) {
    EXPECT_EQ(::SSL_write(ssl_.get(), text.data(), static_cast<int>(text.size())),
              static_cast<int>(text.size()));
    return take();
  }
  // Decrypts all that can be decrypted.
  std::string decrypted(std::string_view bytes) {
    feed(bytes);
    std::string text;
    char chunk[4096];
    ::ERR_clear_error();
    for (int got = 0; (got = ::SSL_read(ssl_.get(), chunk, sizeof chunk)) > 0;) {
      text.append(chunk, static_cast<std::size_t>(got));
    }
    return text;
  }
  bool has_received_close_notify() const {
    return (::SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN) != 0;
  }
  bool is_resumed() const { return ::SSL_session_reused(ssl_.get()) == 1; }
  ClientSession session() { return ClientSession(::SSL_get1_session(ssl_.get())); }
  SSL* ssl() { return ssl_.get(); }

 private:
  std::unique_ptr<SSL_CTX, decltype(&::SSL_CTX_free)> context_{nullptr, &::SSL_CTX_free};
  std::unique_ptr<SSL, decltype(&::SSL_free)> ssl_{nullptr, &::SSL_free};
  BIO* in_ = nullptr;
  BIO* out_ = nullptr;
};

// Whether both ends agree.
inline bool agree(TlsClientForTests& client, TlsServer& server) {
  constexpr int kMostFlights = 10;
  for (int i = 0; i < kMostFlights; ++i) {
    const bool client_done = client.handshake();
    server.feed(client.take());
    const auto server_done = server.handshake();
    client.feed(server.take());
    if (!server_done) return false;
    if (client_done && *server_done) return true;
  }
  return false;
}

// The files of one server's identity.
class IdentityForTests {
 public:
  IdentityForTests() { renew(); }

  // Makes a new certificate; with the same key if one is given.
  void renew(std::string_view key = {}) {
    auto made = make_self_signed({"localhost", "127.0.0.1"}, wall_now(), kCertificateLifetime, key);
    ASSERT_TRUE(made) << made.error().text();
    directory_.write("tls.crt", made->certificate);
    directory_.write("tls.key", made->key);
  }
  void trust(const TestCertificate& client) {
    client.write_to(directory_.in("clients.crt"));
    files.client_ca = directory_.in("clients.crt");
  }
  std::shared_ptr<const ServerIdentity> load(
      const std::shared_ptr<const ServerIdentity>& former = nullptr) const {
    auto loaded = load_identity(files, wall_now(), former);
    EXPECT_TRUE(loaded) << loaded.error().text();
    return loaded ? *loaded : nullptr;
  }
  const ScratchDirectory& directory() const { return directory_; }
  std::string key() const { return directory_.read("tls.key"); }

 private:
  ScratchDirectory directory_;

 public:
  IdentityFiles files{directory_.in("tls.crt"), directory_.in("tls.key")};
};

}  // namespace gpuyard::http
