#include "faces/client/ssh.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include <fmt/format.h>

namespace gpuyard::client {
namespace {

// BatchMode: a question would wait for ever. The keep-alives end a connection whose other side is
// gone after 15 s. The rest takes away what the user's configuration may add for a shell: forwarded
// ports that are taken already, a command of its own, an agent, a window.
constexpr std::array<std::string_view, 11> kFlags = {
    "-T",
    "-a",
    "-x",
    "-oBatchMode=yes",
    "-oServerAliveInterval=5",
    "-oServerAliveCountMax=3",
    "-oClearAllForwardings=yes",
    "-oTunnel=no",
    "-oPermitLocalCommand=no",
    "-oRemoteCommand=none",
    "-oLogLevel=ERROR",
};

// ssh makes %C of this machine, the host, the port and the user.
constexpr std::array<std::string_view, 2> kMasterOptions = {"-oControlMaster=auto",
                                                            "-oControlPersist=600"};
constexpr std::string_view kMasterPath = "-oControlPath=";
constexpr std::string_view kNoMasterOption = "-oControlMaster=no";

// `words` are the command there, which a shell there reads.
std::vector<std::string> ssh_command(const SshHost& host, const SshOptions& options,
                                     const std::vector<std::string>& words) {
  std::vector<std::string> command;
  if (options.with_parent) command = {"", std::string(kWithParent), std::to_string(::getpid())};
  command.emplace_back("ssh");
  command.insert(command.end(), kFlags.begin(), kFlags.end());
  // ssh has the shorter timeout, because its message says best what it waited for.
  const auto timeout_s =
      std::chrono::duration_cast<std::chrono::seconds>(options.login_timeout).count();
  command.push_back(
      fmt::format("-oConnectTimeout={}", std::max<std::int64_t>(timeout_s * 2 / 3, 1)));
  if (options.masters_directory.empty()) {
    command.emplace_back(kNoMasterOption);
  } else {
    command.insert(command.end(), kMasterOptions.begin(), kMasterOptions.end());
    command.push_back(fmt::format("{}{}/%C", kMasterPath, options.masters_directory));
  }
  if (host.port != 0) command.insert(command.end(), {"-p", std::to_string(host.port)});
  if (!host.user.empty()) command.insert(command.end(), {"-l", host.user});
  command.insert(command.end(), {"--", host.host});
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

struct Reason {
  std::string_view words;  // of what was said
  Errc code;
  std::string_view what;
  std::string_view next;       // what to do, if there is no command for it
  std::string_view hint = {};  // {} is what follows `ssh` on a command line
};

// ssh has one exit code for all that goes wrong, and always speaks English.
constexpr std::array kReasons = {
    Reason{"has changed and you have requested", Errc::denied, "its host key has changed",
           "The connection may be intercepted, or the machine was reinstalled: ask its "
           "administrator before you remove the old key"},
    Reason{"Host key verification failed", Errc::denied, "ssh does not know its host key", "",
           "ssh {}  # shows it, once; compare it with the administrator's"},
    Reason{"Permission denied", Errc::denied, "ssh was refused access",
           "gpuyard does not ask for passwords",
           "ssh-copy-id {0}  # installs your key\nssh-add  # unlocks it\n"
           "ssh -o BatchMode=yes {0} true  # tests it"},
    Reason{"Could not resolve hostname", Errc::unavailable, "unknown host",
           "Check the name in DNS or ~/.ssh/config"},
    Reason{"Connection refused", Errc::unavailable, "no ssh server is listening there",
           "Check the port and that sshd is running"},
    Reason{"banner exchange", Errc::timed_out, "it accepts connections but does not respond",
           "Check its sshd"},
    Reason{"timed out", Errc::unavailable, "it cannot be reached",
           "Check that the machine and the network are up"},
    Reason{"No route to host", Errc::unavailable, "it cannot be reached",
           "Check that the machine and the network are up"},
    Reason{"Network is unreachable", Errc::unavailable, "it cannot be reached",
           "Check that the network is up"},
};

constexpr Reason kSshFailure = {"", Errc::unavailable, "ssh failed", "", "ssh {} true"};
constexpr Reason kSshMissing = {"", Errc::unavailable, "ssh is not installed on this machine", "",
                                "sudo apt install openssh-client"};
constexpr Reason kProgramMissing = {
    "", Errc::unavailable, "gpuyard was not found there in ssh's PATH",
    "If it is installed elsewhere, give its path: -H ssh://HOST/path/of/gpuyard, or in hosts.toml"};
constexpr Reason kVersionTooOld = {"", Errc::unsupported, "its gpuyard is too old for remote use",
                                   "Install a newer version there"};
constexpr Reason kReplyTooLate = {"", Errc::timed_out, "it did not respond in time", "",
                                  "ssh {} true"};
constexpr Reason kDaemonFailure = {"", Errc::unavailable, "", ""};
constexpr Reason kConnectionClosed = {"", Errc::unavailable, "the connection was closed", ""};

bool contains_text(std::string_view text, std::string_view phrase) {
  return text.find(phrase) != text.npos;
}

const Reason& reason_of(const http::ChildExit& end) {
  constexpr int kSshFailed = 255;
  constexpr int kNotFound = 127;  // by every shell
  if (end.timed_out) return kReplyTooLate;
  if (!end.status) return kConnectionClosed;
  if (*end.status == kSshFailed) {
    const auto known = std::ranges::find_if(kReasons, [&](const Reason& reason) {
      return contains_text(end.stderr_tail, reason.words);
    });
    return known != kReasons.end() ? *known : kSshFailure;
  }
  if (*end.status == kStartFailedExitCode && contains_text(end.stderr_tail, "starting ssh"))
    return kSshMissing;
  if (*end.status == kNotFound || contains_text(end.stderr_tail, "ommand not found"))
    return kProgramMissing;
  if (contains_text(end.stderr_tail, "no verb dial-stdio") ||
      contains_text(end.stderr_tail, "--send-signals"))
    return kVersionTooOld;
  return end.stderr_tail.empty() ? kConnectionClosed : kDaemonFailure;
}

}  // namespace

std::string SshHost::url() const {
  const bool six = host.find(':') != host.npos;
  const bool is_in_home = program.starts_with('~');
  return fmt::format("{}{}{}{}{}{}{}{}{}", kSshScheme, user, user.empty() ? "" : "@",
                     six ? "[" : "", host, six ? "]" : "",
                     port == 0 ? "" : fmt::format(":{}", port), is_in_home ? "/" : "", program);
}

std::string SshHost::ssh_arguments() const {
  // A shell takes a backslash away.
  constexpr char kAfterDomain = '\\';
  const char* const quote = user.find(kAfterDomain) != user.npos ? "'" : "";
  return fmt::format("{}{}{}{}{}{}", port == 0 ? "" : fmt::format("-p {} ", port), quote, user,
                     user.empty() ? "" : "@", host, quote);
}

Error explain_ssh(const SshHost& host, const http::ChildExit& end) {
  const Reason& reason = reason_of(end);
  Error error{reason.code, host.url(), end.stderr_tail};
  if (!reason.what.empty()) error.message += fmt::format(": {}", reason.what);
  if (!reason.next.empty()) {
    if (!error.cause.empty()) error.cause += error.cause.ends_with('.') ? " " : ". ";
    error.cause += reason.next;
  }
  error.hint = fmt::format(fmt::runtime(reason.hint), host.ssh_arguments());
  return error;
}

namespace {

http::TunnelOptions ssh_tunnel(const SshHost& host, const SshOptions& options,
                               const std::vector<std::string>& words) {
  return {.name = host.url(),
          .command = ssh_command(host, options, words),
          .explain =
              [host, shared = !options.masters_directory.empty()](const http::ChildExit& end) {
                Error error = explain_ssh(host, end);
                if (end.timed_out && shared) {
                  error.hint += "\ngpuyard fleet disconnect  # closes a kept connection that hangs";
                }
                return error;
              },
          .greeting_timeout = options.login_timeout};
}

}  // namespace

http::Endpoint ssh_endpoint(const SshHost& host, const SshOptions& options) {
  const std::string program = host.program.empty() ? "gpuyard" : host.program;
  return http::Endpoint::through_tunnel(
      std::make_shared<http::Tunnel>(ssh_tunnel(host, options, {program, "dial-stdio"})));
}

http::TunnelOptions ssh_shell(const SshHost& host, const SshOptions& options) {
  return ssh_tunnel(host, options, {std::string(kShellCommand)});
}

}  // namespace gpuyard::client
