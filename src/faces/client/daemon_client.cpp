#include "client/daemon_client.h"

#include <algorithm>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "base/text.h"

namespace gpuyard::client {
namespace {

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  std::string out;
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    }
  }
  return out;
}

Errc errc_of_status(int status) {
  for (int i = 0; i <= static_cast<int>(Errc::internal); ++i) {
    const auto code = static_cast<Errc>(i);
    if (code != Errc::busy && http_status_of(code) == status) return code;
  }
  return Errc::internal;
}

std::optional<std::string> text_in(const boost::json::object& object, std::string_view name) {
  const boost::json::value* value = object.if_contains(name);
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return std::string(value->get_string());
}

}  // namespace

bool passes(const Error& error) {
  return error.code == Errc::unavailable || error.code == Errc::timed_out ||
         error.code == Errc::busy;
}

std::string target_of(std::string_view pattern, const NamedValues& parameters) {
  std::string target(pattern);
  char separator = '?';
  for (const auto& [name, value] : parameters) {
    const std::string field = "{" + name + "}";
    if (const std::size_t at = target.find(field); at != std::string::npos) {
      target.replace(at, field.size(), percent_encoded(value));
    } else {
      target += std::exchange(separator, '&');
      target += name + "=" + percent_encoded(value);
    }
  }
  return target;
}

Result<std::string> exchange(const http::Endpoint& daemon, const protocol::RouteInfo& route,
                             std::string target, std::string body, Duration deadline,
                             std::size_t max_answer) {
  http::ClientRequest request;
  if (route.method == "POST") request.method = http::Method::post;
  if (route.method == "PUT") request.method = http::Method::put;
  if (route.method == "DELETE") request.method = http::Method::del;
  request.target = std::move(target);
  request.body = std::move(body);
  auto response = http::fetch(daemon, request, deadline, max_answer);
  if (!response) return std::move(response).error();
  if (response->status / 100 == 2) return std::move(response->body);
  return error_of(*response);
}

namespace {

// The same for one of several problems. Without a body or a place in a list, what begins with a
// slash may be the path of a file.
std::string one_in_words(std::string_view problem, bool of_body) {
  const std::size_t end = problem.find(": ");
  if (!problem.starts_with('/') || end == problem.npos) return std::string(problem);
  std::string_view place = problem.substr(1, end - 1);
  const std::string_view field = take_until('/', place);
  const auto in_name = [](char c) { return c == '_' || (c >= 'a' && c <= 'z'); };
  const bool named = !field.empty() && std::ranges::all_of(field, in_name) &&
                     place.find_first_not_of("0123456789") == place.npos;
  if (!named || (!of_body && place.empty())) return std::string(problem);
  return fmt::format("{}{}", field, problem.substr(end));
}

}  // namespace

std::string in_words(const std::string& message) {
  constexpr std::string_view kBody = "body: ";
  constexpr std::string_view kBetween = "; ";
  std::string_view rest = message;
  const bool of_body = rest.starts_with("body: /");
  if (of_body) rest.remove_prefix(kBody.size());
  std::string text;
  for (;;) {
    const std::size_t end = std::min(rest.find(kBetween), rest.size());
    text += one_in_words(rest.substr(0, end), of_body);
    if (end == rest.size()) break;
    text += kBetween;
    rest.remove_prefix(end + kBetween.size());
  }
  return of_body && text.starts_with('/') ? message : text;
}

// Reads {"error": {"code", "message"}} or {"detail": message}, or
// {"reason": message} of a daemon that is not ready; else the body is the message.
Error error_of(const http::ClientResponse& response) {
  Error error{errc_of_status(response.status), response.body};
  const auto document = json::parse(response.body);
  const auto* object = document ? document->if_object() : nullptr;
  if (object == nullptr) return error;
  for (const char* name : {"detail", "reason"}) {
    if (const auto said = text_in(*object, name)) error.message = in_words(*said);
  }
  const auto* inner = object->if_contains("error");
  if (inner == nullptr || !inner->is_object()) return error;
  if (const auto message = text_in(inner->get_object(), "message")) {
    error.message = in_words(*message);
  }
  const auto code = text_in(inner->get_object(), "code");
  if (const auto known = code ? enum_from_name<Errc>(*code) : std::nullopt) error.code = *known;
  return error;
}

Result<void> read_answer(const http::Endpoint& daemon, std::string_view text,
                         const json::Shape& shape, void* to) {
  const auto read = json::read(text, shape, to, json::UnknownFields::ignore);
  if (read) return {};
  return Error{Errc::internal, "the answer of " + daemon.text() + ": " + read.error().message};
}

}  // namespace gpuyard::client
