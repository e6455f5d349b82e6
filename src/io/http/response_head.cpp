#include "http/response_head.h"

#include <algorithm>
#include <charconv>

namespace gpuyard::http {
namespace {

std::string_view reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 421:
      return "Misdirected Request";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "";
  }
}

void put_number(std::string& out, std::size_t number) {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  out.append(digits, end);
}

void put_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

// A line end inside a field would let whoever chose the value write fields of their own.
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
  if (response.feed) {
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
