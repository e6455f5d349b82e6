// Calls routes of a daemon: one function for all of them, typed by the route.
#pragma once

#include <string>
#include <utility>

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "base/parameters.h"
#include "http/client.h"
#include "protocol/route.h"

namespace gpuyard::client {

inline constexpr Duration kAnswerDeadline = std::chrono::seconds(2);

// Puts `parameters` into the pattern's {fields} and the rest into the query, percent-encoded.
std::string target_of(std::string_view pattern, const NamedValues& parameters);

// Sends the request and returns the body of a 2xx answer. Any other answer is an error with the
// daemon's own message.
Result<std::string> exchange(const http::Endpoint&, const protocol::RouteInfo&, std::string target,
                             std::string body, Duration deadline,
                             std::size_t max_answer = http::kDefaultMaxBody);

// Whether the error passes once the daemon is back or ready: then ask again.
bool passes(const Error&);

// Says "among: ..." for "body: /among/1: ...": the place in a body that the user did not write.
std::string in_words(const std::string& message);

// Returns the error of a refusal, with the daemon's own code, and its message in words.
Error error_of(const http::ClientResponse&);

// `to` points to a new value of this shape. Fields that only a newer daemon knows are ignored.
Result<void> read_answer(const http::Endpoint&, std::string_view text, const json::Shape&,
                         void* to);

template <class Params, class Answer, class Body>
Result<Answer> call(const http::Endpoint& daemon,
                    const protocol::Route<Params, Answer, Body>& route,
                    const Params& parameters = {}, const Body& body = {},
                    Duration deadline = kAnswerDeadline,
                    std::size_t max_answer = http::kDefaultMaxBody) {
  std::string sent;
  if constexpr (!std::is_same_v<Body, protocol::NoBody>) sent = json::to_json(body);
  auto received = exchange(daemon, route, target_of(route.pattern, named_values(parameters)),
                           std::move(sent), deadline, max_answer);
  if (!received) return std::move(received).error();
  Answer answer{};
  const auto read = read_answer(daemon, *received, json::shape_of<Answer>, &answer);
  if (!read) return read.error();
  return answer;
}

}  // namespace gpuyard::client
