// Reads any text as a token: it is refused without being repeated, or is exactly the text that its
// parts make.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/auth/token.h"
#include "require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using gpuyard::auth::TokenText;
  using gpuyard::fuzz::require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto token = TokenText::parse(text);
  if (token) {
    require(token->text() == text, "a token is the text of its parts");
    require(token->digest().size() == 64, "a digest is a SHA-256 in hex");
  } else if (text.starts_with(TokenText::kPrefix) && size > TokenText::kSecretLength) {
    require(token.error().message.find(text) == std::string::npos, "a refusal repeats no secret");
  }
  return 0;
}
