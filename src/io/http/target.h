// The request target: what the client asks for, decoded and checked once.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/http/message.h"

namespace gpuyard::http {

// "%41" becomes "A"; everything else stays, '+' too. Empty if a '%' is not followed by two hex
// digits, or if the result has a control character.
std::optional<std::string> percent_decode(std::string_view text);

// Encodes all but letters, digits and "-._~", as a segment of a path or a value of a query needs
// it.
std::string percent_encode(std::string_view text);

// Fills path and query from request.target, and host where the target names one. Errc::invalid if
// it is neither "/..." nor "http://host/..." in good encoding, or if the decoded path has a ".."
// segment.
Result<void> decode_target(Request& request);

// Whether a request's Host field names us. If a web page has its own name resolve to this machine
// (DNS rebinding), its requests carry that name and are recognised by it. `host` as in the field,
// with or without a port. `local_address` is the literal that the client connected to; `names` are
// allowed besides, in any case.
bool is_host_allowed(std::string_view host, std::string_view local_address,
                     const std::vector<std::string>& names);

}  // namespace gpuyard::http
