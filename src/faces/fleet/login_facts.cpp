#include "faces/fleet/login_facts.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include <fmt/format.h>

#include "base/identifiers.h"
#include "base/spawn.h"
#include "base/text.h"
#include "base/try.h"
#include "faces/client/daemon_address.h"
#include "faces/client/ssh.h"
#include "io/http/tunnel.h"

namespace gpuyard::fleet {
namespace {

constexpr std::string_view kLoginLine = "gpuyard-login ";
constexpr std::string_view kMungeLine = "gpuyard-munge ";
// For both commands there, each of which is killed a second after its own time limit.
constexpr Duration kScriptTimeout = 3 * kLoginCommandTimeout;
constexpr std::size_t kMaxOutputBytes = std::size_t{8} * 1024;
constexpr std::size_t kMaxReasonBytes = 200;

// Exit codes of unmunge are libmunge's error codes. munged checks the lifetime, a second use and
// the permitted user only after its key has decoded the credential.
constexpr int kInvalidCredential = 14;
constexpr int kFirstDecodedError = 15;  // expired, rewound, replayed, unauthorized
constexpr int kLastDecodedError = 18;
constexpr int kTerminated = 124;  // by timeout(1)
constexpr int kKilled = 137;
constexpr int kCannotRun = 126;
constexpr int kCommandMissing = 127;

struct CommandEnd {
  int status = 0;
  std::string text;
};

// Finds "gpuyard-munge 14 unmunge: Error: ..." in the output.
std::optional<CommandEnd> find_line(std::string_view output, std::string_view name) {
  while (!output.empty()) {
    std::string_view line = take_until('\n', output);
    if (!take_prefix(line, name)) continue;
    const auto status = take_number<int>(line);
    if (!status) return std::nullopt;
    return CommandEnd{*status, std::string(trim(line))};
  }
  return std::nullopt;
}

Error unknown_because(std::string_view text) {
  return {Errc::unavailable, printable(text.substr(0, kMaxReasonBytes))};
}

Error no_response(std::string_view program) {
  return unknown_because(
      fmt::format("{} did not respond within {:g} s", program, to_seconds(kLoginCommandTimeout)));
}

bool was_stopped(const CommandEnd& end) {
  return end.status == kTerminated || end.status == kKilled;
}

Result<Login> login_of(const CommandEnd& end) {
  if (was_stopped(end)) return no_response("id");
  std::string_view rest = end.text;
  const std::string user(take_until(' ', rest));
  const auto uid = take_number<std::uint32_t>(rest);
  if (end.status != 0 || user.empty() || !uid || !rest.empty()) {
    return unknown_because("id failed: " + end.text);
  }
  return Login{printable(user), *uid};
}

Result<MungeKey> munge_key_of(const CommandEnd& end) {
  if (end.status == 0) return MungeKey::same;
  if (end.status >= kFirstDecodedError && end.status <= kLastDecodedError) return MungeKey::same;
  if (end.status == kInvalidCredential) return MungeKey::different;
  if (end.status == kCommandMissing) return unknown_because("munge is not installed there");
  if (was_stopped(end)) return no_response("munged");
  return unknown_because(end.text.empty() ? fmt::format("unmunge ended with status {}", end.status)
                                          : end.text);
}

bool is_base64_or_colon(char c) {
  return is_alphanumeric(c) || c == '+' || c == '/' || c == '=' || c == ':';
}

LoginFacts unknown_facts(const Error& error) {
  LoginFacts facts;
  facts.login = error;
  facts.munge_key = error;
  return facts;
}

Result<http::TunnelOptions> shell_of(const http::Endpoint& daemon, const std::string& host,
                                     const FanOutOptions& options) {
  if (daemon.kind == http::Endpoint::Kind::tunnel) {
    const auto target = GPUYARD_TRY(client::parse_ssh_url(daemon.tunnel->name()));
    return client::ssh_shell(target, options.credentials.ssh);
  }
  if (daemon.kind == http::Endpoint::Kind::tls) {
    return unknown_because("only a login through ssh shows it, and it is reached by https");
  }
  if (host != host_name()) return unknown_because("only a login through ssh shows it");
  return http::TunnelOptions{.name = "this machine",
                             .command = {"sh", "-c", std::string(client::kShellCommand)},
                             .explain = [](const http::ChildExit& end) {
                               return Error{Errc::unavailable, "sh failed", end.stderr_tail};
                             }};
}

// The message without the URL, which people know by the machine's name.
Error without_url(Error error, const std::string& name) {
  if (error.message.starts_with(name + ": ")) error.message.erase(0, name.size() + 2);
  return unknown_because(error.text());
}

}  // namespace

Result<std::string> make_munge_credential() {
  const auto program = find_program("munge");
  if (!program) return unknown_because("munge is not installed on this machine");
  auto text = run_with_timeout(
      {.program = *program, .arguments = {"-n", "-u", std::to_string(::geteuid())}},
      kLoginCommandTimeout);
  if (!text) return unknown_because("on this machine, " + text.error().text());
  if (!text->starts_with("MUNGE:") || !std::ranges::all_of(*text, is_base64_or_colon)) {
    return unknown_because("munge on this machine printed no credential");
  }
  return text;
}

std::string login_script(const Result<std::string>& credential) {
  const std::string limit = fmt::format("timeout -k 1 {:g}", to_seconds(kLoginCommandTimeout));
  // Without quotes the text becomes one line. No other user sees the words of `echo`: the shell has
  // it built in.
  return fmt::format(
      "LC_ALL=C; export LC_ALL; set -f\n"
      "text=$({0} sh -c 'id -un && id -u' 2>&1); printf '%s ' {1}$? $text; echo\n"
      "text=$(echo '{3}' | {0} unmunge -n 2>&1); printf '%s ' {2}$? $text; echo\n",
      limit, kLoginLine, kMungeLine, credential ? *credential : "");
}

LoginFacts parse_login_facts(std::string_view output, const Result<std::string>& credential) {
  LoginFacts facts = unknown_facts(
      unknown_because("its login runs no shell; the ssh key may only run another command"));
  if (const auto end = find_line(output, kLoginLine)) facts.login = login_of(*end);
  if (const auto end = find_line(output, kMungeLine)) {
    facts.has_munge = end->status != kCommandMissing && end->status != kCannotRun;
    facts.munge_key = munge_key_of(*end);
  }
  if (!credential) facts.munge_key = credential.error();
  return facts;
}

LoginFacts check_login(const http::Endpoint& daemon, const std::string& host,
                       const FanOutOptions& options, const Result<std::string>& credential) {
  const auto shell = shell_of(daemon, host, options);
  if (!shell) return unknown_facts(shell.error());
  auto connection = http::TunnelConnection::open(*shell);
  if (!connection) return unknown_facts(without_url(connection.error(), shell->name));
  const auto output =
      (*connection)->exchange(login_script(credential), kScriptTimeout, kMaxOutputBytes);
  if (!output) return unknown_facts(without_url(output.error(), shell->name));
  return parse_login_facts(*output, credential);
}

}  // namespace gpuyard::fleet
