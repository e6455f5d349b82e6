// The way to a daemon through ssh: how ssh is started, and what its silence or its words mean.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "client/hosts.h"

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
constexpr std::array<std::string_view, 2> kLeavesMaster = {"-oControlMaster=auto",
                                                           "-oControlPersist=600"};
constexpr std::string_view kMasterPath = "-oControlPath=";
constexpr std::string_view kLeavesNone = "-oControlMaster=no";

std::vector<std::string> command_to(const SshHost& host, const SshManner& manner) {
  std::vector<std::string> words;
  if (manner.guarded) words = {"", std::string(kWithParent), std::to_string(::getpid())};
  words.emplace_back("ssh");
  words.insert(words.end(), kFlags.begin(), kFlags.end());
  // ssh knows better than we what it waits for, so it gives up first.
  const auto patience = std::chrono::duration_cast<std::chrono::seconds>(manner.patience).count();
  words.push_back(fmt::format("-oConnectTimeout={}", std::max<std::int64_t>(patience * 2 / 3, 1)));
  if (manner.masters.empty()) {
    words.emplace_back(kLeavesNone);
  } else {
    words.insert(words.end(), kLeavesMaster.begin(), kLeavesMaster.end());
    words.push_back(fmt::format("{}{}/%C", kMasterPath, manner.masters));
  }
  if (host.port != 0) words.insert(words.end(), {"-p", std::to_string(host.port)});
  if (!host.user.empty()) words.insert(words.end(), {"-l", host.user});
  const std::string program = host.program.empty() ? "gpuyard" : host.program;
  words.insert(words.end(), {"--", host.host, program, "dial-stdio"});
  return words;
}

struct Reason {
  std::string_view words;  // of what was said
  Errc code;
  std::string_view what;
  std::string_view next;  // {} is what follows `ssh` on a command line
};

// ssh has one exit code for all that goes wrong, and always speaks English.
constexpr std::array kReasons = {
    Reason{"has changed and you have requested", Errc::denied, "its host key has changed",
           "Somebody may be listening, or the machine was installed anew: ask its administrator "
           "before you remove the old key"},
    Reason{"Host key verification failed", Errc::denied, "ssh does not know its host key",
           "`ssh {}` shows it once and asks; compare it with what its administrator says"},
    Reason{
        "Permission denied", Errc::denied, "ssh is not let in",
        "gpuyard asks for no password: `ssh-copy-id {0}` takes your key there, `ssh-add` unlocks "
        "it; then `ssh -o BatchMode=yes {0} true` works"},
    Reason{"Could not resolve hostname", Errc::unavailable, "there is no such host",
           "A name is one of DNS or of ~/.ssh/config"},
    Reason{"Connection refused", Errc::unavailable, "no ssh listens there",
           "Is the port right, and does sshd run?"},
    Reason{"banner exchange", Errc::timed_out, "it takes connections and says nothing",
           "Is its sshd well?"},
    Reason{"timed out", Errc::unavailable, "it cannot be reached", "Is it on, and the network?"},
    Reason{"No route to host", Errc::unavailable, "it cannot be reached",
           "Is it on, and the network?"},
    Reason{"Network is unreachable", Errc::unavailable, "it cannot be reached",
           "Is the network on?"},
};

constexpr Reason kOfSsh = {"", Errc::unavailable, "ssh has failed",
                           "`ssh {} true` must work first"};
constexpr Reason kNoSsh = {"", Errc::unavailable, "this machine has no ssh",
                           "Install it: apt install openssh-client"};
constexpr Reason kNoProgram = {
    "", Errc::unavailable, "it has no gpuyard where ssh looks for one",
    "If it is installed elsewhere, name its path: -H ssh://HOST/path/of/gpuyard, or in hosts.toml"};
constexpr Reason kTooOld = {"", Errc::unsupported, "its gpuyard is too old to be asked from afar",
                            "Install a newer one there"};
constexpr Reason kTooLate = {"", Errc::timed_out, "it did not answer in time",
                             "`ssh {} true` must work first"};
constexpr Reason kOfDaemon = {"", Errc::unavailable, "", ""};
constexpr Reason kEnded = {"", Errc::unavailable, "the connection has ended", ""};

bool says(std::string_view said, std::string_view words) {
  return said.find(words) != said.npos;
}

const Reason& reason_of(const http::ChildEnd& end) {
  constexpr int kSshFailed = 255;
  constexpr int kNotFound = 127;  // by every shell
  if (end.too_late) return kTooLate;
  if (!end.status) return kEnded;
  if (*end.status == kSshFailed) {
    const auto known = std::ranges::find_if(
        kReasons, [&](const Reason& reason) { return says(end.said, reason.words); });
    return known != kReasons.end() ? *known : kOfSsh;
  }
  if (*end.status == kNotStarted && says(end.said, "starting ssh")) return kNoSsh;
  if (*end.status == kNotFound || says(end.said, "ommand not found")) return kNoProgram;
  if (says(end.said, "no verb dial-stdio")) return kTooOld;
  return end.said.empty() ? kEnded : kOfDaemon;
}

}  // namespace

Error explain_ssh(const SshHost& host, const http::ChildEnd& end) {
  const Reason& reason = reason_of(end);
  std::string text = host.url();
  if (!reason.what.empty()) text += fmt::format(": {}", reason.what);
  if (!end.said.empty()) text += ": " + end.said;
  if (!reason.next.empty()) {
    text += text.ends_with('.') ? " " : ". ";
    text += fmt::format(fmt::runtime(reason.next), host.for_people());
  }
  return {reason.code, std::move(text)};
}

http::Endpoint daemon_over_ssh(const SshHost& host, const SshManner& manner) {
  http::CarrierPlan plan{
      .name = host.url(),
      .command = command_to(host, manner),
      .explain =
          [host, shared = !manner.masters.empty()](const http::ChildEnd& end) {
            Error error = explain_ssh(host, end);
            if (end.too_late && shared) {
              error.message +=
                  "; `gpuyard fleet hang-up` ends a connection that was left and hangs";
            }
            return error;
          },
      .patience = manner.patience};
  return http::Endpoint::carried(std::make_shared<http::Carrier>(std::move(plan)));
}

}  // namespace gpuyard::client
