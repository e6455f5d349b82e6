// A server that speaks TLS, with a certificate of its own making, for tests of the client: real
// sockets, one connection after the other, on a thread of its own.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/mutex.h"
#include "base/unique_fd.h"
#include "io/http/client_socket.h"
#include "io/http/endpoint.h"
#include "io/http/listening_socket.h"
#include "io/http/openssl.h"

namespace gpuyard::http {

struct LocalListener {
  LocalListener() {
    auto made = listen_on_tcp(Endpoint::tcp("127.0.0.1", 0));
    EXPECT_TRUE(made);
    if (made) socket = *std::move(made);
    SocketAddress address;
    address.length = sizeof address.storage;
    ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.length);
    port = from_socket_address(address).port;
  }
  UniqueFd socket;
  std::uint16_t port = 0;
};

// A self-signed certificate with its key, P-256 unless another is given.
struct TestCertificate {
  std::unique_ptr<EVP_PKEY, decltype(&::EVP_PKEY_free)> key{nullptr, &::EVP_PKEY_free};
  std::unique_ptr<X509, decltype(&::X509_free)> certificate{nullptr, &::X509_free};

  // `names` as OpenSSL writes them: "DNS:localhost,IP:127.0.0.1". Valid for `validity` seconds from
  // now; a negative one: until that long ago.
  explicit TestCertificate(const std::string& names, long validity = 3600,
                           EVP_PKEY* its_key = nullptr) {
    start_openssl();
    key.reset(its_key != nullptr ? its_key : EVP_EC_gen("P-256"));
    certificate.reset(::X509_new());
    X509* x = certificate.get();
    ::X509_set_version(x, X509_VERSION_3);
    ::ASN1_INTEGER_set(::X509_get_serialNumber(x), ++made());
    ::X509_gmtime_adj(X509_getm_notBefore(x), -7200);
    ::X509_gmtime_adj(X509_getm_notAfter(x), validity);
    ::X509_set_pubkey(x, key.get());
    // Each certificate has its own name, by which OpenSSL looks for the signer.
    const std::string name = fmt::format("gpuyard test {}", made().load());
    const auto* common_name = reinterpret_cast<const unsigned char*>(name.c_str());
    ::X509_NAME_add_entry_by_txt(::X509_get_subject_name(x), "CN", MBSTRING_ASC, common_name, -1,
                                 -1, 0);
    ::X509_set_issuer_name(x, ::X509_get_subject_name(x));
    add(NID_subject_alt_name, names);
    add(NID_basic_constraints, "critical,CA:TRUE");
    EXPECT_GT(::X509_sign(x, key.get(), ::EVP_sha256()), 0);
  }

  void write_to(const std::string& path) const {
    const std::unique_ptr<BIO, decltype(&::BIO_free)> file(::BIO_new_file(path.c_str(), "w"),
                                                           &::BIO_free);
    EXPECT_EQ(::PEM_write_bio_X509(file.get(), certificate.get()), 1);
  }
  // For this user alone, as the daemon demands it.
  void write_key_to(const std::string& path) const {
    const std::unique_ptr<BIO, decltype(&::BIO_free)> file(::BIO_new_file(path.c_str(), "w"),
                                                           &::BIO_free);
    EXPECT_EQ(
        ::PEM_write_bio_PrivateKey(file.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr),
        1);
    EXPECT_EQ(::chmod(path.c_str(), 0600), 0);
  }

 private:
  static std::atomic<int>& made() {
    static std::atomic<int> count = 0;
    return count;
  }
  void add(int nid, const std::string& value) {
    X509_EXTENSION* extension = ::X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
    ASSERT_NE(extension, nullptr) << value;
    ::X509_add_ext(certificate.get(), extension, -1);
    ::X509_EXTENSION_free(extension);
  }
};

class BlockingTlsServer {
 public:
  struct Options {
    std::string answer;
    bool sends_close_notify = true;
    int newest = 0;  // version of TLS; 0: what OpenSSL has
  };

  BlockingTlsServer(const TestCertificate& certificate, Options options)
      : options_(std::move(options)),
        context_(::SSL_CTX_new(::TLS_server_method()), &::SSL_CTX_free) {
    ::SSL_CTX_use_certificate(context_.get(), certificate.certificate.get());
    ::SSL_CTX_use_PrivateKey(context_.get(), certificate.key.get());
    ::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to a client that has left
    if (options_.newest != 0) SSL_CTX_set_max_proto_version(context_.get(), options_.newest);
    thread_ = std::thread([this] { serve(); });
  }
  ~BlockingTlsServer() {
    stop_ = true;
    thread_.join();
  }
  BlockingTlsServer(const BlockingTlsServer&) = delete;
  BlockingTlsServer& operator=(const BlockingTlsServer&) = delete;

  std::uint16_t port() const { return listener_.port; }
  // The last client's request and the server name it gave; valid once it has its answer.
  std::string request() {
    const MutexLock lock(mutex_);
    return request_;
  }
  std::string server_name() {
    const MutexLock lock(mutex_);
    return server_name_;
  }

 private:
  void serve() {
    while (!stop_) {
      pollfd ready{listener_.socket.get(), POLLIN, 0};
      if (::poll(&ready, 1, 5) != 1) continue;
      const UniqueFd client(::accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (client) answer(client.get());
    }
  }

  void answer(int client) {
    const std::unique_ptr<SSL, decltype(&::SSL_free)> ssl(::SSL_new(context_.get()), &::SSL_free);
    ::SSL_set_fd(ssl.get(), client);
    if (::SSL_accept(ssl.get()) != 1) return;
    std::string request;
    while (!is_whole(request)) {
      char chunk[4096];
      const int got = ::SSL_read(ssl.get(), chunk, sizeof chunk);
      if (got <= 0) return;
      request.append(chunk, static_cast<std::size_t>(got));
    }
    const char* name = ::SSL_get_servername(ssl.get(), TLSEXT_NAMETYPE_host_name);
    {
      const MutexLock lock(mutex_);
      request_ = request;
      server_name_ = name != nullptr ? name : "";
    }
    ::SSL_write(ssl.get(), options_.answer.data(), static_cast<int>(options_.answer.size()));
    if (options_.sends_close_notify) ::SSL_shutdown(ssl.get());
  }

  static bool is_whole(const std::string& request) {
    const std::size_t end = request.find("\r\n\r\n");
    if (end == request.npos) return false;
    const std::size_t length = request.find("Content-Length: ");
    return length == request.npos ||
           request.size() - end - 4 >= std::stoul(request.substr(length + 16));
  }

  Options options_;
  std::unique_ptr<SSL_CTX, decltype(&::SSL_CTX_free)> context_;
  LocalListener listener_;
  std::atomic<bool> stop_ = false;
  Mutex mutex_;
  std::string request_ GUARDED_BY(mutex_);
  std::string server_name_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace gpuyard::http
