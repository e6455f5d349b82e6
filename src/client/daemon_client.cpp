#include "client/daemon_client.h"

#include <fmt/format.h>

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

// The message of {"error":{"message":...}} or {"detail":...}; the body itself if it is neither.
std::string message_of(const std::string& body) {
  const auto document = json::parse(body);
  const auto* object = document ? document->if_object() : nullptr;
  if (object == nullptr) return body;
  const boost::json::value* message = object->if_contains("detail");
  if (const auto* error = object->if_contains("error"); error != nullptr && error->is_object()) {
    message = error->get_object().if_contains("message");
  }
  return message != nullptr && message->is_string() ? std::string(message->get_string()) : body;
}

Errc errc_of_status(int status) {
  for (int i = 0; i <= static_cast<int>(Errc::internal); ++i) {
    const auto code = static_cast<Errc>(i);
    if (code != Errc::busy && http_status_of(code) == status) return code;
  }
  return Errc::internal;
}

}  // namespace

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
                             std::string target, std::string body) {
  http::ClientRequest request;
  if (route.method == "POST") request.method = http::Method::post;
  if (route.method == "PUT") request.method = http::Method::put;
  if (route.method == "DELETE") request.method = http::Method::del;
  request.target = std::move(target);
  request.body = std::move(body);
  auto response = http::fetch(daemon, request, kAnswerDeadline);
  if (!response) return std::move(response).error();
  if (response->status / 100 == 2) return std::move(response->body);
  return error_of(*response);
}

Error error_of(const http::ClientResponse& response) {
  return Error{errc_of_status(response.status), message_of(response.body)};
}

}  // namespace gpuyard::client
