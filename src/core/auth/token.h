// A token, which a program shows over TCP instead of the uid that the kernel knows on a Unix
// socket. This file is about one token, its text and its record; token_store.h keeps them all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "gpu/device/device.h"

namespace gpuyard::auth {

// The right to do something. Each includes the ones before it.
enum class Scope : std::uint8_t { open, metrics, read, lease, control, admin };
BOOST_DESCRIBE_ENUM(Scope, open, metrics, read, lease, control, admin)

// The parts of a token's text, "gpy_" + id + secret + checksum: 61 letters and digits, which a
// double click selects and a scanner for leaked secrets finds. The id is public and is how people
// and logs name the token.
struct TokenText {
  static constexpr std::string_view kPrefix = "gpy_";
  static constexpr std::size_t kIdLength = 8;        // of base32: 40 bits
  static constexpr std::size_t kSecretLength = 43;   // of base62: 256 bits
  static constexpr std::size_t kChecksumLength = 6;  // of base62: CRC-32 of what stands before it

  std::string id;
  std::string secret;

  // Draws a new one from the kernel. Errc::internal if the kernel gives no random bytes.
  static Result<TokenText> draw();
  // Errc::invalid if it is no token or was mistyped. The message shows nothing of the text. A
  // client can check a token so without the daemon.
  static Result<TokenText> parse(std::string_view);

  std::string text() const;
  // The SHA-256 of the secret, in hex: all that the daemon keeps of it. The secret is random, so a
  // slow hash would add nothing.
  std::string digest() const;
};

// The shortest and longest lifetime of a token. Only an administrator can create a token that never
// expires.
inline constexpr std::chrono::seconds kMinTokenLifetime{1};
inline constexpr std::chrono::seconds kMaxTokenLifetime = std::chrono::days(3650);

// Compares in the same time wherever they differ.
bool is_same_digest(std::string_view one, std::string_view other);

// The record of a token. Its rights are the least of its own scope and of what its user may now.
struct Token {
  std::string id;
  std::string digest;
  std::string name;                       // for people
  std::optional<std::uint32_t> uid = {};  // its owner; empty: a service, which may only read
  Scope scope = Scope::read;
  std::vector<DeviceId> gpus = {};  // the only ones it is for; empty: all
  WallTime made{};
  std::string made_by;                     // "uid 0"
  std::optional<WallTime> expires = {};    // empty: never
  std::optional<WallTime> last_used = {};  // known to the minute
  std::string last_from = {};              // "192.0.2.7", "uid 1000"
  std::optional<WallTime> in_clear = {};   // when it was last shown over plain TCP
  std::optional<WallTime> revoked = {};
  std::string revoked_by = {};

  bool is_valid(WallTime now) const { return !revoked && (!expires || now < *expires); }
  // "service grafana" or "uid 1000".
  std::string owner() const;
};

}  // namespace gpuyard::auth
