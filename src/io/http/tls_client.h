// A client's end of TLS, between bytes and bytes: certificate and host name are always verified.
// Knows no socket, so that all waiting has one place. Inner header.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "http/origin.h"

namespace gpuyard::http {

class TlsClient {
 public:
  // Errc::invalid if there are no certificates to trust, or the origin's ca_file has none.
  static Result<std::unique_ptr<TlsClient>> make(const Origin&);
  ~TlsClient();
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  // What came from the server.
  void feed(std::string_view bytes);
  // What is to be sent to it.
  std::string take();

  // One step on; true: done, false: feed it more. Errc::denied if the server is not who it should
  // be.
  Result<bool> shake_hands();
  Result<void> encrypt(std::string_view bytes);
  // Bytes that the server sent, 0 if it said that these were all; nothing: feed it more.
  Result<std::optional<std::size_t>> decrypt(std::span<char> space);

 private:
  struct Parts;
  explicit TlsClient(std::unique_ptr<Parts>);
  Error fault(std::string_view doing) const;

  std::unique_ptr<Parts> parts_;
};

}  // namespace gpuyard::http
