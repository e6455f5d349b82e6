#include "faces/client/daemon_address.h"

#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "base/files.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/toml_reader.h"
#include "base/trusted_file.h"
#include "base/try.h"
#include "core/auth/token.h"
#include "faces/client/ssh.h"
#include "io/http/certificate.h"

namespace gpuyard::client {
namespace {

constexpr std::string_view kUnix = "unix://";
constexpr std::string_view kHttps = "https://";
constexpr std::string_view kAddressForms =
    "ssh://[USER@]HOST[:PORT], https://HOST[:PORT], unix:///PATH, or a name in hosts.toml";
constexpr std::size_t kMaxHostsFileBytes = std::size_t{64} * 1024;
constexpr std::size_t kMaxHostPartLength = 255;  // of a host, as DNS has it; of a user, too

// Characters that neither ssh nor any shell takes for anything but themselves. ssh gives user and
// host to the commands of its configuration (ProxyCommand), and those to a shell.
bool is_plain(char c, std::string_view also) {
  return is_alphanumeric(c) || also.find(c) != also.npos;
}

// A part that begins with '-' would be an option of ssh.
bool is_plain_word(std::string_view text, std::string_view also) {
  const auto plain = [&](char c) { return is_plain(c, also); };
  return !text.empty() && text.size() <= kMaxHostPartLength && text.front() != '-' &&
         std::ranges::all_of(text, plain);
}

// "alice", "alice@corp" or "CORP\alice". The user's own ssh configuration may give the user to a
// shell, which drops a backslash before a letter. At the end it would change what follows.
constexpr char kBackslash = '\\';

bool is_user(std::string_view text) {
  const std::size_t split = text.find(kBackslash);
  if (split == text.npos) return is_plain_word(text, "._+-@");
  return is_plain_word(text.substr(0, split), "._-") &&
         is_plain_word(text.substr(split + 1), "._+-@");
}

Error ssh_url_error(std::string_view url, std::string_view why) {
  return {Errc::invalid,
          fmt::format("expected ssh://[USER@]HOST[:PORT][/PATH]; got \"{}\"", printable(url)),
          std::string(why)};
}

// Takes "[::1]" or "lab" from the front.
std::optional<std::string_view> consume_host(std::string_view& rest) {
  if (!rest.starts_with('[')) {
    const std::string_view host = rest.substr(0, rest.find(':'));
    rest.remove_prefix(host.size());
    return is_plain_word(host, "._-") ? std::optional(host) : std::nullopt;
  }
  const std::size_t end = rest.find(']');
  if (end == rest.npos) return std::nullopt;
  const std::string_view host = rest.substr(1, end - 1);
  rest.remove_prefix(end + 1);
  return is_plain_word(host, ":.") ? std::optional(host) : std::nullopt;
}

Error invalid_host_error(std::string_view text) {
  return {Errc::invalid, fmt::format("expected {}; got \"{}\"", kAddressForms, printable(text))};
}

Error unknown_host_error(std::string_view name, const std::string& file) {
  return {Errc::not_found, fmt::format("host \"{}\" not found in {}", printable(name), file)};
}

Result<std::string> parse_address_url(std::string_view url) {
  if (url.starts_with(kHttps)) {
    const auto origin = GPUYARD_TRY(parse_https_url(url));
    return http::HttpsEndpoint{origin}.url();
  }
  if (url.starts_with(kSshScheme)) {
    const auto host = GPUYARD_TRY(parse_ssh_url(url));
    return host.url();
  }
  if (url.starts_with(kUnix)) {
    auto path = std::string(url.substr(kUnix.size()));
    if (!path.starts_with('/')) {
      return Error{Errc::invalid,
                   fmt::format("expected an absolute path, as in unix:///run/gpuyard/gpuyard.sock; "
                               "got \"{}\"",
                               printable(url))};
    }
    GPUYARD_TRY(http::parse_endpoint(path));
    return path;
  }
  return invalid_host_error(url);
}

// The entry of a name in hosts.toml.
struct HostEntry {
  std::string name = {};
  std::string url = {};
  std::string pin = {};
  std::string ca_file = {};
  std::string token_file = {};

  friend bool operator==(const HostEntry&, const HostEntry&) = default;
};

Result<HostEntry> parse_host_entry(const toml::table& section, const std::string& name,
                                   const std::string& file) {
  HostEntry found{.name = name};
  for (const auto& [key, node] : section) {
    const auto text = toml_as<std::string>(node);
    std::string* const field = !text                       ? nullptr
                               : key.str() == "url"        ? &found.url
                               : key.str() == "pin"        ? &found.pin
                               : key.str() == "ca_file"    ? &found.ca_file
                               : key.str() == "token_file" ? &found.token_file
                                                           : nullptr;
    if (field == nullptr) {
      return toml_error(file, node.source(),
                        fmt::format("{}.{}: unknown key; a host has url = \"ssh://...\", or url = "
                                    "\"https://...\" with a pin or a ca_file and a token_file",
                                    name, key.str()));
    }
    *field = *text;
  }
  if (found.url.empty()) return toml_error(file, section.source(), name + " has no url");
  const bool keyed = !found.pin.empty() || !found.ca_file.empty() || !found.token_file.empty();
  if (!found.url.starts_with(kHttps) && keyed) {
    return toml_error(file, section.source(),
                      name + ": pin, ca_file and token_file need an https:// url");
  }
  if (!found.pin.empty() && !http::is_pin(found.pin)) {
    return toml_error(file, section.source(),
                      name + ".pin: invalid; print the pin with `gpuyard tls show` on the host");
  }
  return found;
}

using Hosts = std::map<std::string, HostEntry>;  // by name

Result<Hosts> parse_hosts(std::string_view text, const std::string& file) {
  const auto document = GPUYARD_TRY(parse_toml(text, file));
  Hosts hosts;
  for (const auto& [name, node] : document) {
    const auto* const section = node.as_table();
    if (section == nullptr) continue;
    auto one = GPUYARD_TRY(parse_host_entry(*section, std::string(name.str()), file));
    hosts.emplace(name.str(), std::move(one));
  }
  return hosts;
}

Result<Hosts> load_hosts(const std::string& file) {
  // The file decides on which machine root changes things. Capabilities matter to nothing that it
  // decides.
  GPUYARD_TRY(::geteuid() == 0 ? check_trusted_by_root(file) : Result<void>());
  const auto text = read_file(file, kMaxHostsFileBytes);
  if (!text && text.error().code != Errc::not_found) return text.error();
  return parse_hosts(text ? *text : "", file);
}

Result<std::string> find_host_url(const std::string& name, const std::string& file) {
  const auto hosts = GPUYARD_TRY(load_hosts(file));
  if (const auto found = hosts.find(name); found != hosts.end()) return found->second.url;
  Error error = unknown_host_error(name, file);
  error.hint = fmt::format("gpuyard -H ssh://{} devices", name);
  return error;
}

// Reads a token that only its user can read.
Result<std::string> read_token_file(const std::string& file) {
  constexpr std::size_t kMaxTokenFileBytes = 4096;
  struct stat found{};
  if (::stat(file.c_str(), &found) != 0) return system_error("reading the token in " + file);
  constexpr mode_t kOthers = 077;
  if ((found.st_mode & kOthers) != 0) {
    Error error{Errc::denied,
                fmt::format("{} is readable by others, and so is the token in it", file)};
    if (S_ISREG(found.st_mode)) {
      error.hint = fmt::format("chmod 600 {}  # and create a new token", quote_shell_word(file));
    } else {
      error.message = fmt::format("the token file {} is not a regular file", file);
      error.cause = "others can read it, and so the token in it; store a new token in a file";
    }
    return error;
  }
  const auto text = GPUYARD_TRY(read_file(file, kMaxTokenFileBytes));
  return std::string(trim(text));
}

// Makes a path in hosts.toml absolute; "" stays empty.
Result<std::string> resolve_path(const Credentials& credentials, const HostEntry& host,
                                 std::string_view key, const std::string& path) {
  if (path.empty()) return path;
  auto whole = absolute_path(path, credentials.home);
  if (whole) return whole;
  return std::move(whole).error().in(
      fmt::format("{}: {}.{}", credentials.hosts_file, host.name, key));
}

// Returns the token file for this host. For a single host, the environment's file takes precedence.
// For many hosts, the host's own does, and an environment's file without {} is ignored.
Result<std::string> select_token_file(const Credentials& credentials, const HostEntry& host,
                                      const http::Origin& origin) {
  auto own = resolve_path(credentials, host, "token_file", host.token_file);
  // GPUYARD_TOKEN_FILE with the host's name for each {}.
  std::string shared_file = replace_all(credentials.token_file, "{}", origin.host);
  if (!credentials.many_hosts)
    return shared_file.empty() ? own : Result<std::string>(std::move(shared_file));
  const bool of_each = shared_file != credentials.token_file;
  return host.token_file.empty() ? of_each ? std::move(shared_file) : std::string() : own;
}

// Returns the token for this host, from the environment or from a file.
Result<std::string> select_token(const Credentials& credentials, const HostEntry& host,
                                 const http::Origin& origin) {
  if (!credentials.token.empty() && !credentials.token_file.empty()) {
    return Error{Errc::invalid, "GPUYARD_TOKEN cannot be used with GPUYARD_TOKEN_FILE"};
  }
  if (!credentials.token_file.empty()) {
    if (auto whole = absolute_path(credentials.token_file, credentials.home); !whole) {
      return std::move(whole).error().in("GPUYARD_TOKEN_FILE");
    }
  }
  const bool of_environment = !credentials.many_hosts && !credentials.token.empty();
  const auto file =
      of_environment ? Result<std::string>("") : select_token_file(credentials, host, origin);
  if (!file) return file.error();
  auto token = of_environment  ? Result<std::string>(credentials.token)
               : file->empty() ? Result<std::string>("")
                               : read_token_file(*file);
  if (!token || token->empty()) return token;
  const auto parsed = auth::TokenText::parse(*token);
  if (!parsed) return Error(parsed.error()).in(of_environment ? "GPUYARD_TOKEN" : *file);
  return token;
}

// Returns the entry of this host, under any name; an empty one if there is none. Entries that
// differ are refused, because the one without the pin could apply.
Result<HostEntry> find_entry(const http::Origin& origin, const Hosts& hosts,
                             const std::string& file) {
  HostEntry found;
  const auto keys = [](const HostEntry& one) {
    return std::tie(one.pin, one.ca_file, one.token_file);
  };
  for (const auto& [name, one] : hosts) {
    const auto same = parse_https_url(one.url);
    if (!same || same->text() != origin.text()) continue;
    if (!found.name.empty() && keys(found) != keys(one)) {
      return Error{Errc::invalid,
                   fmt::format("{}: {} and {} are the same host, {}, but differ in pin, ca_file or "
                               "token_file",
                               file, found.name, name, http::HttpsEndpoint{origin}.url()),
                   "", fmt::format("gpuyard host remove {}", quote_shell_word(name))};
    }
    found = one;
  }
  return found;
}

Result<http::Endpoint> https_endpoint(const std::string& url, const Credentials& credentials) {
  auto origin = GPUYARD_TRY(parse_https_url(url));
  const auto hosts = credentials.hosts_file.empty() ? Hosts{} : load_hosts(credentials.hosts_file);
  if (!hosts) return hosts.error();
  const auto host = GPUYARD_TRY(find_entry(origin, *hosts, credentials.hosts_file));
  origin.pin = host.pin;
  auto ca_file = GPUYARD_TRY(resolve_path(credentials, host, "ca_file", host.ca_file));
  origin.ca_file = std::move(ca_file);
  auto token = GPUYARD_TRY(select_token(credentials, host, origin));
  return http::Endpoint::over_tls({std::move(origin), std::move(token)});
}

}  // namespace

Result<SshHost> parse_ssh_url(std::string_view url) {
  SshHost found;
  if (!url.starts_with(kSshScheme)) return ssh_url_error(url, "it does not begin like that");
  std::string_view rest = url.substr(kSshScheme.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view program = rest.substr(slash);
  rest = rest.substr(0, slash);
  if (const std::size_t at = rest.rfind('@'); at != rest.npos) {
    found.user = rest.substr(0, at);
    rest.remove_prefix(at + 1);
    if (found.user.find(':') != found.user.npos) {
      return ssh_url_error(url, "it must not contain a password; set up a key with `ssh-copy-id`");
    }
    if (!is_user(found.user)) {
      return ssh_url_error(
          url,
          "the user may contain letters, digits, '.', '_', '+', '-' and '@', after an "
          "optional domain and backslash");
    }
  }
  const auto host = consume_host(rest);
  if (!host) {
    return ssh_url_error(
        url,
        "the host may contain letters, digits, '.', '_' and '-' (not first), or be an "
        "IPv6 address in brackets");
  }
  found.host = *host;
  if (rest.starts_with(':')) {
    const auto port = parse_number<std::uint16_t>(rest.substr(1));
    if (!port || *port == 0) return ssh_url_error(url, "the port must be 1 to 65535");
    found.port = *port;
  } else if (!rest.empty()) {
    return ssh_url_error(url, "only a port may follow the host");
  }
  if (program.size() <= 1) return found;
  constexpr std::size_t kMaxPathLength = 1024;
  const auto in_path = [](char c) { return is_plain(c, "._+-@/"); };
  // The shell there replaces ~ in front; anywhere else it has no place.
  const bool is_in_home = program.starts_with("/~/");
  if (is_in_home) program.remove_prefix(1);
  if (program.size() > kMaxPathLength || program.ends_with('/') ||
      !std::ranges::all_of(program.substr(is_in_home ? 1 : 0), in_path)) {
    return ssh_url_error(
        url,
        "the path must lead to the gpuyard program and may contain letters, digits, "
        "'.', '_', '+', '-' and '@'; /~/ at its start is the home directory");
  }
  found.program = program;
  return found;
}

Result<http::Origin> parse_https_url(std::string_view url) {
  const auto no = [&](std::string_view why) {
    return Error{Errc::invalid,
                 fmt::format("expected https://HOST[:PORT]; got \"{}\"", printable(url)),
                 std::string(why)};
  };
  if (!url.starts_with(kHttps)) return no("it does not begin like that");
  std::string_view rest = url.substr(kHttps.size());
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.find('@') != rest.npos) return no("it must not contain a token; use GPUYARD_TOKEN");
  const auto host = consume_host(rest);
  if (!host) return no("the host may contain letters, digits, '.', '_' and '-'");
  std::string name = to_lower(*host);
  if (name.ends_with('.')) name.pop_back();
  if (name.empty() || name.ends_with('.')) return no("the host must not have an empty part");
  http::Origin origin{.host = std::move(name), .port = kHttpsPort};
  if (rest.empty()) return origin;
  const auto port =
      rest.starts_with(':') ? parse_number<std::uint16_t>(rest.substr(1)) : std::nullopt;
  if (!port || *port == 0) return no("only a port from 1 to 65535 may follow the host");
  origin.port = *port;
  return origin;
}

bool is_host_name(std::string_view text) {
  return is_plain_word(text, "._-");
}

Result<std::string> resolve_address(std::string_view host, const std::string& hosts_file) {
  if (host.find("://") != host.npos) return parse_address_url(host);
  if (!is_host_name(host)) {
    return invalid_host_error(host);
  }
  const auto url = GPUYARD_TRY(find_host_url(std::string(host), hosts_file));
  auto address = parse_address_url(url);
  if (!address) return std::move(address).error().in(fmt::format("{}: {}", hosts_file, host));
  return address;
}

Result<std::vector<std::pair<std::string, std::string>>> read_hosts_file(const std::string& file) {
  struct stat found{};
  if (::stat(file.c_str(), &found) != 0) return system_error("reading " + file);
  const auto hosts = GPUYARD_TRY(load_hosts(file));
  std::vector<std::pair<std::string, std::string>> named;
  for (const auto& [name, host] : hosts) {
    auto url = parse_address_url(host.url);
    if (!url) return std::move(url).error().in(fmt::format("{}: {}", file, name));
    named.emplace_back(name, *std::move(url));
  }
  return named;
}

Result<void> check_hosts(std::string_view text, const std::string& file) {
  const auto hosts = GPUYARD_TRY(parse_hosts(text, file));
  for (const auto& [name, one] : hosts) {
    const auto origin = parse_https_url(one.url);
    if (!origin) continue;
    GPUYARD_TRY(find_entry(*origin, hosts, file));
  }
  return {};
}

Result<std::string> remove_host(const std::string& text, const std::string& name,
                                const std::string& file) {
  auto hosts = parse_hosts(text, file);
  if (!hosts) return hosts.error();
  if (hosts->erase(name) == 0) {
    return unknown_host_error(name, file);
  }
  const auto document = GPUYARD_TRY(parse_toml(text, file));
  const toml::table& section = *document[name].as_table();
  std::size_t first = section.source().begin.line;
  std::size_t last = first;
  for (const auto& [key, node] : section) {
    last = std::max<std::size_t>(last, node.source().end.line);
  }
  std::vector<std::string_view> lines;
  for (std::string_view rest = text; !rest.empty();) lines.push_back(take_until('\n', rest));
  if (first > 1 && trim(lines[first - 2]).empty()) --first;
  std::string left;
  for (std::size_t line = 1; line <= lines.size(); ++line) {
    if (line < first || line > last) left += fmt::format("{}\n", lines[line - 1]);
  }
  const auto remaining = parse_hosts(left, file);
  if (remaining && *remaining == *hosts) return left;
  return Error{
      Errc::unsupported,
      fmt::format("{}: the lines of {} are mixed with those of other hosts", file, printable(name)),
      "remove them with an editor"};
}

bool is_remote_address(std::string_view address) {
  return address.starts_with(kSshScheme) || address.starts_with(kHttps);
}

bool mentions_remote_address(std::string_view text) {
  return text.find(kSshScheme) != text.npos || text.find(kHttps) != text.npos;
}

Result<http::Endpoint> parse_daemon_address(const std::string& address,
                                            const Credentials& credentials) {
  if (address.starts_with(kHttps)) return https_endpoint(address, credentials);
  if (!address.starts_with(kSshScheme)) return http::parse_endpoint(address);
  const auto host = GPUYARD_TRY(parse_ssh_url(address));
  return ssh_endpoint(host, credentials.ssh);
}

}  // namespace gpuyard::client
