// The address of a daemon on another machine, found from a URL or a name in hosts.toml. Knows no
// verb.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "faces/client/ssh.h"
#include "io/http/endpoint.h"
#include "io/http/origin.h"

namespace gpuyard::client {

// Errc::invalid for anything that ssh, or a shell that ssh starts, could take for something else.
Result<SshHost> parse_ssh_url(std::string_view url);

// Returns whether a host in hosts.toml may have this name.
bool is_host_name(std::string_view text);

// Turns what -H and GPUYARD_HOST may be into what parse_daemon_address() takes: "ssh://..." and
// "https://..." as they are, "unix:///path" as the path, and a name as what the file hosts.toml
// says of it. Errc::invalid, with what is expected, for anything else; not_found: the file does not
// have the name.
Result<std::string> resolve_address(std::string_view host, const std::string& hosts_file);

// Returns the names in a file as hosts.toml, each with its URL. Errc::not_found: there is no file.
Result<std::vector<std::pair<std::string, std::string>>> read_hosts_file(const std::string& file);

// Errc::invalid if a file as hosts.toml with this text would be refused when it is read: for a
// mistake, or for entries of one host that differ.
Result<void> check_hosts(std::string_view text, const std::string& file);

// Returns the text of such a file without the lines of one entry. Errc::not_found: it has no such
// name; unsupported: the lines of the entry cannot be told from those of others.
Result<std::string> remove_host(const std::string& text, const std::string& name,
                                const std::string& file);

// The user's means of reaching a remote daemon: the token for one over https, and hosts.toml, which
// may have the pin of the daemon's key, the CA file of its certificate and a token file.
struct Credentials {
  std::string hosts_file = {};
  std::string token = {};       // GPUYARD_TOKEN
  std::string token_file = {};  // GPUYARD_TOKEN_FILE; {} in it is the host of the URL
  // True for requests to many hosts. GPUYARD_TOKEN, and the token in a file without {}, are then
  // not sent, because they are for one host.
  bool many_hosts = false;
  SshOptions ssh = {};
  std::string home = {};  // what ~ means in hosts.toml; "": nothing
};

// The port of a URL that names none.
inline constexpr std::uint16_t kHttpsPort = 9411;

// The host is in lower case and without a trailing dot, so that each host has one name.
// Errc::invalid if it is no https://host[:port].
Result<http::Origin> parse_https_url(std::string_view url);

// An address of this machine's, as http::parse_endpoint takes it, or an ssh or https URL.
// Errc::invalid for a token that was mistyped, denied for one in a file that others can read.
Result<http::Endpoint> parse_daemon_address(const std::string& address, const Credentials& = {});

// Returns whether the address leads to another machine.
bool is_remote_address(std::string_view address);
// Returns whether a message names an address on another machine.
bool mentions_remote_address(std::string_view text);

}  // namespace gpuyard::client
