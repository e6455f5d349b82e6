// Connects to a daemon through ssh: the command that starts ssh, and the meaning of its messages
// and of its silence.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "io/http/endpoint.h"
#include "io/http/tunnel.h"

namespace gpuyard::client {

// The beginning of an SshHost's URL.
inline constexpr std::string_view kSshScheme = "ssh://";

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

// Returns the endpoint of a daemon to which ssh leads.
http::Endpoint ssh_endpoint(const SshHost&, const SshOptions&);

// Starts a POSIX shell that reads its script from stdin, after the greeting of a tunnel. Every
// login shell understands these words.
inline constexpr std::string_view kShellCommand = "echo gpuyard-dial-stdio 1; exec sh";
// The way to such a shell on a machine. One use is a login of its own, unless connections are
// shared.
http::TunnelOptions ssh_shell(const SshHost&, const SshOptions&);

// The error for an ssh process without a connection, or with a lost one; says what to do next.
Error explain_ssh(const SshHost&, const http::ChildExit&);

// The command with which our own program starts ssh, so that ssh ends when we are killed: the
// hidden verb with-parent, our process id, and the program's command line. See cli/verbs.h.
inline constexpr std::string_view kWithParent = "with-parent";
inline constexpr int kStartFailedExitCode = 126;  // exit code if ssh cannot be started

}  // namespace gpuyard::client
