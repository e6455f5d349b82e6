#include "http/host.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/ascii.h"

namespace gpuyard::http {
namespace {

bool all_digits(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// "name:80", "[::1]:80" without the port and the brackets; empty if malformed.
std::optional<std::string> name_part(std::string_view host) {
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
  if (!rest.empty() && (rest.front() != ':' || !all_digits(rest.substr(1)))) return std::nullopt;
  std::string name = to_lower(host.substr(start, end - start));
  if (start == 0 && name.ends_with('.'))
    name.pop_back();  // "localhost." is localhost, fully written
  return name;
}

bool is_loopback(const std::string& name) {
  in_addr four{};
  if (::inet_pton(AF_INET, name.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
  in6_addr six{};
  return ::inet_pton(AF_INET6, name.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

bool same_address(const std::string& name, const std::string& local) {
  in6_addr a{};
  in6_addr b{};
  if (::inet_pton(AF_INET6, name.c_str(), &a) == 1 &&
      ::inet_pton(AF_INET6, local.c_str(), &b) == 1) {
    return std::memcmp(&a, &b, sizeof a) == 0;
  }
  return name == local;
}

bool same_name(std::string_view name, std::string_view allowed) {
  const auto lowered = name_part(allowed);
  return lowered && *lowered == name;
}

}  // namespace

bool host_allowed(std::string_view host, std::string_view local_address,
                  const std::vector<std::string>& names) {
  const auto name = name_part(host);
  if (!name || name->empty()) return false;
  if (*name == "localhost" || is_loopback(*name)) return true;
  if (same_address(*name, std::string(local_address))) return true;
  return std::ranges::any_of(names, [&](const auto& allowed) { return same_name(*name, allowed); });
}

}  // namespace gpuyard::http
