#include "core/auth/token.h"

#include <openssl/crypto.h>
#include <sys/random.h>
#include <zlib.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/files.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/try.h"

namespace gpuyard::auth {
namespace {

constexpr std::string_view kBase32 = "abcdefghijklmnopqrstuvwxyz234567";
constexpr std::string_view kBase62 =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

// Appends letters that are all equally likely: a byte beyond the last whole alphabet is drawn
// again.
Result<void> draw_letters(std::string& out, std::string_view alphabet, std::size_t count) {
  const std::size_t usable = 256 / alphabet.size() * alphabet.size();
  for (const std::size_t end = out.size() + count; out.size() < end;) {
    std::array<unsigned char, 64> bytes{};
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
      return gpuyard::system_error("drawing random bytes");
    }
    for (const unsigned char byte : bytes) {
      if (byte < usable && out.size() < end) out += alphabet[byte % alphabet.size()];
    }
  }
  return {};
}

std::string checksum_of(std::string_view text) {
  auto rest = static_cast<std::uint64_t>(
      ::crc32(0, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size())));
  std::string sum(TokenText::kChecksumLength, kBase62.front());
  for (auto digit = sum.rbegin(); digit != sum.rend(); ++digit, rest /= kBase62.size()) {
    *digit = kBase62[rest % kBase62.size()];
  }
  return sum;
}

constexpr bool is_base32(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '2' && c <= '7');
}

}  // namespace

Result<TokenText> TokenText::draw() {
  TokenText drawn;
  GPUYARD_TRY(draw_letters(drawn.id, kBase32, kIdLength));
  GPUYARD_TRY(draw_letters(drawn.secret, kBase62, kSecretLength));
  return drawn;
}

Result<TokenText> TokenText::parse(std::string_view text) {
  constexpr std::size_t kLength = kPrefix.size() + kIdLength + kSecretLength + kChecksumLength;
  if (!text.starts_with(kPrefix)) {
    return Error{Errc::invalid, "not a gpuyard token: tokens begin with \"gpy_\""};
  }
  if (text.size() != kLength) {
    return Error{Errc::invalid, fmt::format("expected a token of {} characters, got {}: part of it "
                                            "is missing, or something was added",
                                            kLength, text.size())};
  }
  const std::string_view summed = text.substr(0, kLength - kChecksumLength);
  const std::string_view id = summed.substr(kPrefix.size(), kIdLength);
  const std::string_view secret = summed.substr(kPrefix.size() + kIdLength);
  const bool good_letters =
      std::ranges::all_of(id, is_base32) && std::ranges::all_of(secret, is_alphanumeric);
  if (!good_letters || text.substr(summed.size()) != checksum_of(summed)) {
    return Error{Errc::invalid, "mistyped token: its checksum does not match"};
  }
  return TokenText{std::string(id), std::string(secret)};
}

std::string TokenText::text() const {
  const std::string summed = fmt::format("{}{}{}", kPrefix, id, secret);
  return summed + checksum_of(summed);
}

std::string TokenText::digest() const {
  return sha256_hex(secret);
}

bool is_same_digest(std::string_view one, std::string_view other) {
  return one.size() == other.size() && ::CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

std::string Token::owner() const {
  return uid ? fmt::format("uid {}", *uid) : fmt::format("service {}", name);
}

}  // namespace gpuyard::auth
