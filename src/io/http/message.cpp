#include "http/message.h"

#include <algorithm>
#include <array>

#include "base/ascii.h"
#include "base/json_writer.h"

namespace gpuyard::http {

std::string_view name_of(Method method) {
  static constexpr std::array<std::string_view, 8> kNames = {"GET",    "HEAD",  "POST",    "PUT",
                                                             "DELETE", "PATCH", "OPTIONS", "OTHER"};
  return kNames[static_cast<std::size_t>(method)];
}

std::string_view find_header(const std::vector<Header>& headers, std::string_view name) {
  for (const Header& header : headers) {
    if (equals_ignoring_case(header.name, name)) return header.value;
  }
  return {};
}

bool Peer::in_group(gid_t group) const {
  return std::ranges::find(groups, group) != groups.end();
}

Response::Response(int status_code, std::string type, std::string text)
    : Response(status_code, std::move(type), std::make_shared<const std::string>(std::move(text))) {
}

Response error_response(int status, std::string_view code, std::string_view message) {
  std::string body = R"({"error":{"code":)";
  json::put_string(body, code);
  body += R"(,"message":)";
  json::put_string(body, message);
  body += "}}";
  return {status, "application/json", std::move(body)};
}

Response error_response(const Error& error) {
  return error_response(http_status_of(error.code), name_of(error.code), error.message);
}

Reply& Reply::operator=(Reply&& other) noexcept {
  if (this != &other) {
    forget();
    send_ = std::exchange(other.send_, nullptr);
  }
  return *this;
}

void Reply::operator()(Response response) {
  if (const Send send = std::exchange(send_, nullptr)) send(std::move(response));
}

void Reply::forget() {
  if (send_) (*this)(error_response(500, "internal", "the request was dropped without an answer"));
}

}  // namespace gpuyard::http
