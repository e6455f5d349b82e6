// The result of one request to a Kubernetes API server, distinguished by how a caller reacts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <boost/describe/enum.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "io/http/client.h"

namespace gpuyard::kube {

enum class Outcome : std::uint8_t {
  ok,
  absent,          // 404: no such object; where `reason` is "", no such API
  conflict,        // 409: the object is not as the request expected it; read it again
  already_exists,  // 409 to a creation: an object has this name
  gone,            // 410: the server no longer has this version; list again
  unauthorized,    // 401: the token is missing, unknown or expired
  forbidden,       // 403: the token's account lacks a right, or a policy denies the request
  rejected,        // 400, 422 and other 4xx: the request itself is wrong; a retry does not help
  throttled,       // 429, and 503 with Retry-After: the server asks for a pause
  server_error,    // other 5xx
  unreachable,     // no credentials, no connection, no trust, or no whole answer in time
  malformed,       // an answer, but not one of a Kubernetes API server
};
BOOST_DESCRIBE_ENUM(Outcome, ok, absent, conflict, already_exists, gone, unauthorized, forbidden,
                    rejected, throttled, server_error, unreachable, malformed)

struct Answer {
  Outcome outcome = Outcome::unreachable;
  int status = 0;            // of HTTP; 0: no answer came
  std::string body = {};     // a JSON object, as it came; ok only
  std::string reason = {};   // for programs: "AlreadyExists", "NotFound"; "": the server names none
  std::string message = {};  // for people, printable; "" if ok
  std::optional<Duration> retry_after = {};

  bool ok() const { return outcome == Outcome::ok; }
};

// Whether a request with this outcome may have been carried out, now or a moment later.
bool may_be_carried_out(Outcome);

// An answer without an answer: `why` is for people.
Answer unreachable_answer(std::string why);

// `server` names the server in messages. A write whose answer is lost may have been carried out.
Answer to_answer(std::string_view server, Result<http::ClientResponse>);

}  // namespace gpuyard::kube
