// How a receiver can tell that a message is ours. The room's only use of OpenSSL.
#pragma once

#include <string>
#include <string_view>

#include "notify/secret.h"

namespace gpuyard::notify {

// HMAC-SHA256, in lower-case hexadecimal digits.
std::string hmac_sha256(const Secret& key, std::string_view text);

// With padding (RFC 4648, section 4).
std::string base64(std::string_view bytes);

}  // namespace gpuyard::notify
