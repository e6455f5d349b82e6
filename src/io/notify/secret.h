// A text that cannot be read by accident: it cannot be printed, formatted, logged or written to
// JSON. Code that needs it calls reveal().
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "io/http/origin.h"

namespace gpuyard::notify {

class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string text) : text_(std::move(text)) {}

  // For what is sent to the receiver, and for nothing else.
  const std::string& reveal() const { return text_; }
  bool empty() const { return text_.empty(); }

  friend bool operator==(const Secret&, const Secret&) = default;

 private:
  std::string text_;
};

// A secret in a file of its own, which not every user may read. The file's text without white space
// around it; one line. The path must be absolute, because a daemon has no meaningful working
// directory: otherwise Errc::invalid. Errc::unavailable has what is wrong with the file and the
// remedy.
Result<Secret> read_secret(const std::string& path);

// The URL of a receiver, in parts. What follows the host may be a secret - a Slack URL is one - and
// so may the user information.
struct Url {
  http::Origin origin;
  Secret target;    // "/services/..." with the query; at least "/"
  Secret userinfo;  // "user:password", percent-decoded; "": none

  friend bool operator==(const Url&, const Url&) = default;
};

// http://... or https://...; the error never repeats what was given.
Result<Url> parse_url(std::string_view text);

}  // namespace gpuyard::notify
