#include "io/http/target.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "base/text.h"
#include "io/http/endpoint.h"

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

bool has_parent_segment(std::string_view path) {
  while (!path.empty()) {
    if (take_until('/', path) == "..") return true;
  }
  return false;
}

bool decode_query(std::string_view text, Request& request) {
  while (!text.empty()) {
    std::string_view pair = take_until('&', text);
    if (pair.empty()) continue;
    auto name = percent_decode(take_until('=', pair));
    auto value = percent_decode(pair);
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

// The absolute form "http://host/path". Every server has to accept it, though clients send it to
// proxies only.
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

bool is_all_digits(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// "name:80", "[::1]:80" without the port and the brackets; empty if malformed.
std::optional<std::string> parse_host_name(std::string_view host) {
  std::size_t end = host.size();
  std::size_t start = 0;
  std::string_view rest;
  if (host.starts_with('[')) {
    end = host.find(']');
    if (end == host.npos) return std::nullopt;
    start = 1;
    rest = host.substr(end + 1);
  } else {
    end = std::min(host.find(':'), host.size());
    rest = host.substr(end);
  }
  if (!rest.empty() && (rest.front() != ':' || !is_all_digits(rest.substr(1)))) return std::nullopt;
  std::string name = to_lower(host.substr(start, end - start));
  if (start == 0 && name.ends_with('.'))
    name.pop_back();  // "localhost." is localhost, fully written
  return name;
}

bool is_same_address(const std::string& name, const std::string& local) {
  in6_addr a{};
  in6_addr b{};
  if (::inet_pton(AF_INET6, name.c_str(), &a) == 1 &&
      ::inet_pton(AF_INET6, local.c_str(), &b) == 1) {
    return std::memcmp(&a, &b, sizeof a) == 0;
  }
  return name == local;
}

bool is_same_name(std::string_view name, std::string_view allowed) {
  const auto lowered = parse_host_name(allowed);
  return lowered && *lowered == name;
}

}  // namespace

std::string percent_encode(std::string_view text) {
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
    // User information in a target can make one host look like another.
    if (authority.empty() || authority.find('@') != authority.npos) {
      return Error{Errc::invalid, "the request target must contain a host and no user"};
    }
    request.host = authority;
  } else if (!target.starts_with('/')) {
    return Error{Errc::invalid, "the request target must be a path that starts with '/'"};
  }
  const std::size_t mark = target.find('?');
  auto path = percent_decode(target.substr(0, mark));
  if (!path) return Error{Errc::invalid, "the path is not valid percent-encoding"};
  if (has_parent_segment(*path)) return Error{Errc::invalid, "the path has a '..' segment"};
  request.path = path->empty() ? "/" : *std::move(path);
  if (mark != target.npos && !decode_query(target.substr(mark + 1), request)) {
    return Error{Errc::invalid, "the query is not valid percent-encoding"};
  }
  return {};
}

bool is_host_allowed(std::string_view host, std::string_view local_address,
                     const std::vector<std::string>& names) {
  const auto name = parse_host_name(host);
  if (!name || name->empty()) return false;
  if (*name == "localhost" || is_loopback(*name)) return true;
  if (is_same_address(*name, std::string(local_address))) return true;
  return std::ranges::any_of(names,
                             [&](const auto& allowed) { return is_same_name(*name, allowed); });
}

}  // namespace gpuyard::http
