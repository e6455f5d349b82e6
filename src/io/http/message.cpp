#include "io/http/message.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/json_writer.h"
#include "base/text.h"

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

bool Peer::is_in_group(gid_t group) const {
  return std::ranges::find(groups, group) != groups.end();
}

Response::Response(int status_code, std::string type, std::string text)
    : Response(status_code, std::move(type), std::make_shared<const std::string>(std::move(text))) {
}

Response error_response(int status, std::string_view code, std::string_view message,
                        std::string_view hint) {
  std::string body = R"({"error":{"code":)";
  json::put_string(body, code);
  body += R"(,"message":)";
  json::put_string(body, message);
  if (!hint.empty()) {
    body += R"(,"hint":)";
    json::put_string(body, hint);
  }
  body += "}}";
  Response response{status, "application/json", std::move(body)};
  if (status == 503) response.headers.push_back({"Retry-After", std::string(kRetryAfterSeconds)});
  return response;
}

Response error_response(const Error& error) {
  return error_response(http_status_of(error.code), name_of(error.code), error.text(), error.hint);
}

Reply& Reply::operator=(Reply&& other) noexcept {
  if (this != &other) {
    abandon();
    send_ = std::exchange(other.send_, nullptr);
  }
  return *this;
}

void Reply::operator()(Response response) {
  if (const Send send = std::exchange(send_, nullptr)) send(std::move(response));
}

void Reply::abandon() {
  if (send_) (*this)(error_response(500, "internal", "the request was dropped without a response"));
}

Reply with_field(Reply reply, Header field) {
  const auto shared = std::make_shared<Reply>(std::move(reply));
  return Reply([shared, field = std::move(field)](Response response) {
    response.headers.push_back(field);
    (*shared)(std::move(response));
  });
}

namespace {

constexpr auto kReasons = std::to_array<std::pair<int, std::string_view>>({
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
});

std::string_view reason_of(int status) {
  const auto known = std::ranges::find(kReasons, status, &std::pair<int, std::string_view>::first);
  return known == kReasons.end() ? std::string_view() : known->second;
}

void put_number(std::string& out, std::size_t number) {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  out.append(digits, end);
}

void put_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

// A line end inside a field would let the author of its value write further fields.
bool is_safe(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte != 0x7f;
  });
}

}  // namespace

bool has_body(int status) {
  return status >= 200 && status != 204 && status != 304;
}

void put_head(std::string& out, const Response& response, HeadOptions options) {
  out += "HTTP/1.1 ";
  put_number(out, static_cast<std::size_t>(response.status));
  out.append(" ").append(reason_of(response.status));
  out += "\r\nServer: gpuyard\r\nX-Content-Type-Options: nosniff\r\n";
  if (!response.content_type.empty() && is_safe(response.content_type)) {
    put_field(out, "Content-Type", response.content_type);
  }
  if (response.stream) {
    if (!options.http_1_0) out += "Transfer-Encoding: chunked\r\n";
  } else if (has_body(response.status)) {
    out += "Content-Length: ";
    put_number(out, response.body ? response.body->size() : 0);
    out += "\r\n";
  }
  for (const Header& header : response.headers) {
    if (is_safe(header.name) && is_safe(header.value)) put_field(out, header.name, header.value);
  }
  if (!options.keep_alive) out += "Connection: close\r\n";
  if (options.keep_alive && options.http_1_0) out += "Connection: keep-alive\r\n";
  out += "\r\n";
}

}  // namespace gpuyard::http
