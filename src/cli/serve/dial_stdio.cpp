// gpuyard dial-stdio, and the child at the other end of ssh
#include "daemon/serve.h"
#include "io/http/relay.h"

#include <sys/prctl.h>

#include "base/files.h"
#include "base/log.h"
#include "base/spawn.h"
#include "cli/lease/signalling.h"
#include "cli/read/source_access.h"
#include "cli/screen/output.h"
#include "cli/shared_options.h"
#include "cli/verbs.h"
#include "daemon/config/config.h"
#include "daemon/setter_link.h"
#include "faces/client/ssh.h"
#include "sim/demo.h"
#include "sim/world_file.h"
#include "sim/world_reader.h"

namespace gpuyard::cli {
namespace {

// There is no option that names another socket: a key that may only run this leads to the daemon
// and nowhere else. The kernel tells the daemon who connects, which is whom ssh has let in.
Result<http::Endpoint> socket_to_dial(const DialStdioVerb& verb) {
  auto daemon = require_daemon("");
  if (!daemon) return daemon;
  if (daemon->kind != http::Endpoint::Kind::unix_socket) {
    return Error{Errc::invalid, fmt::format("GPUYARD_SOCKET is {} on this machine; the daemon can "
                                            "identify the user only over a Unix socket",
                                            daemon->text())};
  }
  if (!verb.lease_only) return daemon;
  config::Config::Server server;
  server.socket = daemon->path;
  return http::Endpoint::unix_socket(config::lease_socket_of(server));
}

}  // namespace

Options add_dial_stdio(Options program, DialStdioVerb& verb) {
  const Options dial =
      program.verb("dial-stdio", "Relay stdin and stdout to the daemon; run by ssh for -H");
  dial.flag("--lease-only", verb.lease_only,
            "Connect to the socket that allows nothing beyond leasing");
  dial.flag("--send-signals", verb.send_signals,
            "Send the signals of `lease release` to the processes listed on stdin instead")
      .excludes(dial.find("--lease-only"));
  dial.explain("The bytes on stdin are HTTP requests to the daemon, those on stdout its responses.")
      .example("gpuyard dial-stdio")
      .example("gpuyard dial-stdio --lease-only");
  return dial;
}

int run(const DialStdioVerb& verb) {
  if (verb.send_signals) {
    constexpr unsigned kMaxSeconds = 60;
    ::alarm(kMaxSeconds);  // ends this process if ssh does not
    return report_result(relay_signals());
  }
  const auto socket = socket_to_dial(verb);
  if (!socket) return print_error(socket.error());
  ::signal(SIGPIPE, SIG_IGN);  // the end of a pipe is an end like others
  return report_result(http::relay(*socket, STDIN_FILENO, STDOUT_FILENO));
}

// A killed client cannot end its ssh, and an ssh that is still logging in sees no end of its stdin.
int run_with_parent(const std::vector<std::string>& words) {
  if (words.size() < 2) return client::kStartFailedExitCode;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (std::to_string(::getppid()) != words.front())
    return client::kStartFailedExitCode;  // it is gone
  const std::vector<std::string> texts(words.begin() + 1, words.end());
  const auto program = find_program(texts.front());
  if (program) ::execv(program->c_str(), pointers_to(texts).data());
  print_error(program ? system_error("starting " + texts.front()) : program.error());
  return client::kStartFailedExitCode;
}

}  // namespace gpuyard::cli
