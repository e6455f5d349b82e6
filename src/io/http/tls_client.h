// A client's end of TLS, from bytes to bytes. Certificate and host name are verified, or the public
// key where the origin has a pin. Knows no socket, so that all waiting has one place. Inner header.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "io/http/certificate.h"
#include "io/http/origin.h"

namespace gpuyard::http {

class TlsClient {
 public:
  // Errc::invalid if there are no certificates to trust, the origin's ca_file or ca_pem has none,
  // or its pin is none; not_found or denied if that file cannot be read.
  static Result<std::unique_ptr<TlsClient>> make(const Origin&);
  // Accepts any server, to see its certificate. Nothing may be sent to such a server.
  static Result<std::unique_ptr<TlsClient>> make_unverified(const Origin&);
  ~TlsClient();
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  // Takes bytes that came from the server.
  void feed(std::string_view bytes);
  // Returns the bytes to send to the server.
  std::string take();

  // Takes the next step. True: done; false: feed it more. Errc::denied if the server is not the one
  // that was meant.
  Result<bool> handshake();
  Result<void> encrypt(std::string_view bytes);
  // Returns how many bytes of the server's it put into `space`: 0 if the server said that these
  // were all, nothing if it must be fed more.
  Result<std::optional<std::size_t>> decrypt(std::span<char> space);
  // The certificate that the server showed, after the handshake.
  PresentedCertificate presented_certificate() const;

 private:
  struct Parts;
  explicit TlsClient(std::unique_ptr<Parts>);
  static Result<std::unique_ptr<Parts>> make_parts(const Origin&);
  static Result<std::unique_ptr<TlsClient>> make_client(std::unique_ptr<Parts>, const Origin&);
  Error tls_error(std::string_view doing) const;
  Result<void> check_pin() const;

  std::unique_ptr<Parts> parts_;
};

}  // namespace gpuyard::http
