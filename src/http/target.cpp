#include "http/target.h"

namespace gpuyard::http {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}

bool climbs(std::string_view path) {
  for (std::size_t at = 0; at != std::string_view::npos;) {
    const std::size_t end = path.find('/', at);
    if (path.substr(at, end - at) == "..") return true;
    at = end == std::string_view::npos ? end : end + 1;
  }
  return false;
}

bool decode_query(std::string_view text, Request& request) {
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(pair.size() + 1, text.size()));
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    auto name = percent_decode(pair.substr(0, equals));
    auto value = percent_decode(equals == pair.npos ? "" : pair.substr(equals + 1));
    if (!name || !value) return false;
    request.query.emplace_back(*std::move(name), *std::move(value));
  }
  return true;
}

}  // namespace

std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_digit(text[i + 1]);
      const int low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (is_control(c)) return std::nullopt;
    out += c;
  }
  return out;
}

Result<void> decode_target(Request& request) {
  const std::string_view target = request.target;
  if (target.empty() || target.front() != '/') {
    return Error{Errc::invalid, "the request target must be a path that starts with '/'"};
  }
  const std::size_t mark = target.find('?');
  auto path = percent_decode(target.substr(0, mark));
  if (!path) return Error{Errc::invalid, "the path is not valid percent-encoding"};
  if (climbs(*path)) return Error{Errc::invalid, "the path has a '..' segment"};
  request.path = *std::move(path);
  if (mark != target.npos && !decode_query(target.substr(mark + 1), request)) {
    return Error{Errc::invalid, "the query is not valid percent-encoding"};
  }
  return {};
}

}  // namespace gpuyard::http
