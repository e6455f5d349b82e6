#include "http/target.h"

#include <algorithm>

#include "base/ascii.h"

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

std::size_t scheme_length(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (equals_ignoring_case(target.substr(0, scheme.size()), scheme)) return scheme.size();
  }
  return 0;
}

// The absolute form "http://host/path", which every server has to accept though only proxies
// are sent it.
bool is_absolute(std::string_view target) {
  return scheme_length(target) > 0;
}

// "host:80" of "http://host:80/path?query"; leaves "/path?query".
std::string_view take_authority(std::string_view& target) {
  target.remove_prefix(scheme_length(target));
  const std::size_t end = std::min(target.find_first_of("/?"), target.size());
  const std::string_view authority = target.substr(0, end);
  target.remove_prefix(end);
  return authority;
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
  std::string_view target = request.target;
  if (target.find('#') != target.npos) {
    return Error{Errc::invalid, "the request target must not have a fragment ('#')"};
  }
  if (is_absolute(target)) {
    const std::string_view authority = take_authority(target);
    // User information in a target is a way to dress one host up as another.
    if (authority.empty() || authority.find('@') != authority.npos) {
      return Error{Errc::invalid, "the request target must name a host, and no user"};
    }
    request.host = authority;
  } else if (!target.starts_with('/')) {
    return Error{Errc::invalid, "the request target must be a path that starts with '/'"};
  }
  const std::size_t mark = target.find('?');
  auto path = percent_decode(target.substr(0, mark));
  if (!path) return Error{Errc::invalid, "the path is not valid percent-encoding"};
  if (climbs(*path)) return Error{Errc::invalid, "the path has a '..' segment"};
  request.path = path->empty() ? "/" : *std::move(path);
  if (mark != target.npos && !decode_query(target.substr(mark + 1), request)) {
    return Error{Errc::invalid, "the query is not valid percent-encoding"};
  }
  return {};
}

}  // namespace gpuyard::http
