#include "notify/url.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "http/target.h"

namespace gpuyard::notify {
namespace {

Error not_a_url() {
  return {Errc::invalid, "is not a URL like https://host/path or http://127.0.0.1:9093"};
}

bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7F; });
}

// "host", "host:8080", "[::1]:8080"
bool read_authority(std::string_view text, http::Origin& origin) {
  std::size_t host_end = text.rfind(':');
  if (text.starts_with('[')) {
    const std::size_t bracket = text.find(']');
    if (bracket == text.npos) return false;
    origin.host = text.substr(1, bracket - 1);
    host_end = bracket + 1;
  } else {
    origin.host = text.substr(0, host_end);
    if (origin.host.find(':') != text.npos) return false;
  }
  if (origin.host.empty() || origin.host.find_first_of("[]\\@") != text.npos) return false;
  if (host_end >= text.size()) return true;
  if (text[host_end] != ':') return false;
  const char* end = text.data() + text.size();
  const auto port = std::from_chars(text.data() + host_end + 1, end, origin.port);
  return port.ec == std::errc{} && port.ptr == end && origin.port != 0;
}

}  // namespace

Result<Url> parse_url(std::string_view text) {
  constexpr std::string_view kHttps = "https://";
  constexpr std::string_view kHttp = "http://";
  if (!is_plain(text)) return not_a_url();
  Url url;
  url.origin.tls = text.starts_with(kHttps);
  if (!url.origin.tls && !text.starts_with(kHttp)) return not_a_url();
  url.origin.port = url.origin.tls ? 443 : 80;
  text.remove_prefix(url.origin.tls ? kHttps.size() : kHttp.size());
  text = text.substr(0, text.find('#'));
  const std::size_t path = std::min(text.find_first_of("/?"), text.size());
  std::string_view authority = text.substr(0, path);
  if (const std::size_t at = authority.rfind('@'); at != authority.npos) {
    const auto who = http::percent_decode(authority.substr(0, at));
    if (!who) return not_a_url();
    url.userinfo = Secret(*who);
    authority.remove_prefix(at + 1);
  }
  if (!read_authority(authority, url.origin)) return not_a_url();
  std::string target(text.substr(path));
  if (!target.starts_with('/')) target.insert(0, "/");
  url.target = Secret(std::move(target));
  return url;
}

}  // namespace gpuyard::notify
