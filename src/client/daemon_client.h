// Calls routes of a daemon: one function for all of them, typed by the route.
#pragma once

#include <string>
#include <utility>

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "http/client.h"
#include "protocol/route.h"

namespace gpuyard::client {

inline constexpr Duration kAnswerDeadline = std::chrono::seconds(2);

// Puts `parameters` into the pattern's {fields} and the rest into the query, percent-encoded.
using NamedValues = std::vector<std::pair<std::string, std::string>>;
std::string target_of(std::string_view pattern, const NamedValues& parameters);

// Sends it and returns the body of a 2xx answer; of another, its error with the daemon's own
// message.
Result<std::string> exchange(const http::Endpoint&, const protocol::RouteInfo&, std::string target,
                             std::string body, Duration deadline);

// What passes when the daemon is there again, or has found its feet: to be asked again.
bool passes(const Error&);

// The error that a refusal stands for, with the daemon's own code and message.
Error error_of(const http::ClientResponse&);

template <Record T>
NamedValues named_values(const T& record) {
  NamedValues out;
  const auto add = [&](const char* name, const auto& value) {
    if constexpr (std::is_convertible_v<decltype(value), std::string>) {
      out.emplace_back(name, value);
    } else if constexpr (std::is_same_v<decltype(value), const bool&>) {
      out.emplace_back(name, value ? "true" : "false");
    } else if constexpr (DescribedEnum<std::remove_cvref_t<decltype(value)>>) {
      out.emplace_back(name, enum_name(value));
    } else {
      out.emplace_back(name, std::to_string(value));
    }
  };
  each_member<T>([&](auto member) {
    const auto& value = record.*member.pointer;
    if constexpr (is_optional<std::remove_cvref_t<decltype(value)>>) {
      if (value) add(member.name, *value);
    } else {
      add(member.name, value);
    }
  });
  return out;
}

template <class Params, class Answer, class Body>
Result<Answer> call(const http::Endpoint& daemon,
                    const protocol::Route<Params, Answer, Body>& route,
                    const Params& parameters = {}, const Body& body = {},
                    Duration deadline = kAnswerDeadline) {
  std::string sent;
  if constexpr (!std::is_same_v<Body, protocol::NoBody>) sent = json::to_json(body);
  auto received = exchange(daemon, route, target_of(route.pattern, named_values(parameters)),
                           std::move(sent), deadline);
  if (!received) return std::move(received).error();
  auto answer = json::from_json<Answer>(*received, json::UnknownFields::ignore);
  if (!answer) {
    return Error{Errc::internal, "the answer of " + daemon.text() + ": " + answer.error().message};
  }
  return answer;
}

}  // namespace gpuyard::client
