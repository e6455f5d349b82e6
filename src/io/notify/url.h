// The URL of a receiver, taken apart. What follows the host may be a secret - a Slack URL is one -
// and so may be who calls.
#pragma once

#include <string_view>

#include "base/result.h"
#include "http/origin.h"
#include "notify/secret.h"

namespace gpuyard::notify {

struct Url {
  http::Origin origin;
  Secret target;    // "/services/..." with the query; at least "/"
  Secret userinfo;  // "user:password", percent-decoded; "": none

  friend bool operator==(const Url&, const Url&) = default;
};

// http://... or https://...; the error never repeats what was given.
Result<Url> parse_url(std::string_view text);

}  // namespace gpuyard::notify
