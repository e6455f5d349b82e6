// Calls routes of a daemon: one function for all of them, typed by the route.
// Thread: any. Calls block until the answer, the timeout or the last retry.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/json_writer.h"
#include "base/parameters.h"
#include "base/try.h"
#include "faces/client/forms.h"
#include "faces/protocol/route.h"
#include "io/http/client.h"

namespace gpuyard::client {

inline constexpr Duration kReplyTimeout = std::chrono::seconds(2);
// The longest time that a request is retried while the daemon is reading its stored state.
inline constexpr Duration kLoadTimeout = std::chrono::seconds(30);

enum class RetryPolicy : std::uint8_t { none, while_loading };

// Puts `parameters` into the pattern's {fields} and the rest into the query, percent-encoded.
std::string target_of(std::string_view pattern, const NamedValues& parameters);

// Sends the request and returns the body of a 2xx answer. Any other answer is an error with the
// daemon's own message. With RetryPolicy::while_loading the request is retried as retry_delay()
// says.
Result<std::string> exchange(const http::Endpoint&, const protocol::RouteInfo&, std::string target,
                             std::string body, Duration timeout,
                             std::size_t max_answer = http::kDefaultMaxBodyBytes,
                             RetryPolicy = RetryPolicy::none);

// Returns how long to wait before the next retry; nothing: no retry. `attempt` is the number of
// retries before, `elapsed` the time since the first attempt. Only requests that were not carried
// out and soon can be are retried: for kLoadTimeout while the daemon is reading its stored state,
// and three times within 5 s when the caller has exceeded a quota. Any other unavailability may
// last, or the request may have been carried out.
std::optional<Duration> retry_delay(const http::ClientResponse& refusal, int attempt,
                                    Duration elapsed);

// Returns whether the error passes once the daemon is back or ready: then retry.
bool is_transient(const Error&);

// Says "among: ..." for "body: /among/1: ...": the place in a body that the user did not write.
std::string readable_message(const std::string& message);

// Returns the error of a refusal, with the daemon's own code, and its message in words.
Error error_of(const http::ClientResponse&);

template <class Params, class Answer, class Body>
Result<Answer> call(const http::Endpoint& daemon,
                    const protocol::Route<Params, Answer, Body>& route,
                    const Params& parameters = {}, const Body& body = {},
                    Duration timeout = kReplyTimeout,
                    std::size_t max_answer = http::kDefaultMaxBodyBytes,
                    RetryPolicy retry_policy = RetryPolicy::none) {
  std::string sent;
  if constexpr (!std::is_same_v<Body, protocol::NoBody>) sent = json::to_json(body);
  auto received =
      GPUYARD_TRY(exchange(daemon, route, target_of(route.pattern, named_values(parameters)),
                           std::move(sent), timeout, max_answer, retry_policy));
  return parse_reply<Answer>(daemon.text(), received);
}

// The same with RetryPolicy::while_loading: see exchange().
template <class Params, class Answer, class Body>
Result<Answer> call_with_retry(const http::Endpoint& daemon,
                               const protocol::Route<Params, Answer, Body>& route,
                               const Params& parameters = {}, const Body& body = {},
                               Duration timeout = kReplyTimeout) {
  return call(daemon, route, parameters, body, timeout, http::kDefaultMaxBodyBytes,
              RetryPolicy::while_loading);
}

}  // namespace gpuyard::client
