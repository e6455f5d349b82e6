// Base64 as HTTP and WebSocket headers need it.
#pragma once

#include <string>
#include <string_view>

namespace gpuyard {

// With padding (RFC 4648, section 4).
std::string encode_base64(std::string_view bytes);

}  // namespace gpuyard
