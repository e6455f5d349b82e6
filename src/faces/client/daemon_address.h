// The address of a daemon on another machine, found from a URL or a name in hosts.toml. Knows no
// verb.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "io/http/endpoint.h"
#include "io/http/origin.h"
#include "io/http/tunnel.h"

namespace gpuyard::client {

// The parts of "ssh://[user@]host[:port][/path/of/gpuyard]"; a path "/~/..." is in the user's home.
struct SshHost {
  std::string user;        // empty: ssh decides
  std::string host;        // a name that ssh knows, or an address without brackets
  std::uint16_t port = 0;  // 0: ssh decides
  // Gpuyard's path there: "/opt/bin/gpuyard", or "~/bin/gpuyard" in the user's home; empty: the one
  // in its PATH.
  std::string program;

  std::string url() const;
  // Returns the text after `ssh` on a command line: "-p 2222 alice@lab".
  std::string ssh_arguments() const;

  friend bool operator==(const SshHost&, const SshHost&) = default;
};

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

// The options with which ssh is started.
struct SshOptions {
  // Our program has the verb with-parent, by which ssh ends when we are killed. Without it an ssh
  // that is still logging in ends by itself, after login_timeout at most.
  bool with_parent = false;
  // A directory of the user's own where connections are left to be shared for ten minutes; "": none
  // is left, and one that the user's own configuration shares is used.
  std::string masters_directory = {};
  Duration login_timeout = std::chrono::seconds(15);  // for the login
};

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

// The same of one that ssh leads to.
http::Endpoint ssh_endpoint(const SshHost&, const SshOptions&);

// The error for an ssh process without a connection, or with a lost one; says what to do next.
Error explain_ssh(const SshHost&, const http::ChildExit&);

// The command with which our own program starts ssh, so that ssh ends when we are killed: the
// hidden verb with-parent, our process id, and the program's command line. See cli/verbs.h.
inline constexpr std::string_view kWithParent = "with-parent";
inline constexpr int kStartFailedExitCode = 126;  // exit code if ssh cannot be started

}  // namespace gpuyard::client
