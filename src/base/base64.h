// Base64 as the headers of HTTP and WebSocket and the certificates of a kubeconfig have it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gpuyard {

// With padding (RFC 4648, section 4).
std::string encode_base64(std::string_view bytes);
// Reads that form, and no other: without padding or with white space the result is empty.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace gpuyard
