#include "base/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <new>

namespace gpuyard {

std::string sha256_hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  // Looking the algorithm up takes longer than hashing a line.
  static const EVP_MD* const kSha256 = ::EVP_MD_fetch(nullptr, "SHA256", nullptr);
  std::array<unsigned char, kSha256HexDigits / 2> hash{};
  if (::EVP_Digest(bytes.data(), bytes.size(), hash.data(), nullptr, kSha256, nullptr) != 1) {
    throw std::bad_alloc();
  }
  std::string digits;
  for (const unsigned char byte : hash) {
    digits += kDigits[byte >> 4U];
    digits += kDigits[byte & 0xFU];
  }
  return digits;
}

}  // namespace gpuyard
