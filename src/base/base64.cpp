#include "base/base64.h"

#include <openssl/evp.h>

namespace gpuyard {
namespace {

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

std::string encode_base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4, '\0');  // OpenSSL ends it with a zero, as it was
  ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), bytes_of(bytes),
                    static_cast<int>(bytes.size()));
  return text;
}

std::optional<std::string> decode_base64(std::string_view text) {
  std::string bytes((text.size() + 3) / 4 * 3, '\0');
  const int size = ::EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()), bytes_of(text),
                                     static_cast<int>(text.size()));
  if (size < 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  bytes.resize(static_cast<std::size_t>(size) - padding);
  // OpenSSL also reads white space around it, and bits of no byte.
  return encode_base64(bytes) == text ? std::optional(bytes) : std::nullopt;
}

}  // namespace gpuyard
