// Selects the daemon of a verb: the table of what each verb does, and what -H, GPUYARD_HOST,
// --socket and the like mean together. Opens no connection.
#include <algorithm>
#include <optional>
#include <type_traits>

#include <fmt/format.h>
#include <boost/mp11/algorithm.hpp>

#include "base/files.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/command_line.h"
#include "faces/client/local_daemon.h"

namespace gpuyard::cli {
namespace {

// The table: every verb stands in one row. A verb that is in none does not compile.
using DaemonVerbs =
    boost::mp11::mp_list<DevicesVerb, TopVerb, WatchVerb, EventsVerb, RecordVerb, HistoryVerb,
                         WhyVerb, CheckVerb, QueryVerb, SmiVerb, ProcessesVerb, DriverVerb,
                         EnergyVerb, DoctorVerb, ControlVerb, AuditVerb, OperationsVerb, LeaseVerb,
                         LeasesVerb, QueueVerb, FreeVerb, CordonVerb, UsageVerb, AlertsVerb,
                         TokenVerb>;
using StartingVerbs = boost::mp11::mp_list<RunVerb>;  // and EnergyVerb, if it is given a command
using LocalVerbs =
    boost::mp11::mp_list<ServeVerb, ReplayVerb, ConfigVerb, TlsVerb, HostVerb, FleetVerb, SlurmVerb,
                         KubeVerb, SimVerb, DialStdioVerb, VersionVerb, SchemaVerb, CompletionVerb>;

template <class AnyVerb>
VerbScope scope_of_verb(const AnyVerb& verb) {
  using boost::mp11::mp_contains;
  constexpr bool kIsClient = mp_contains<DaemonVerbs, AnyVerb>::value;
  constexpr bool kStartsDaemon = mp_contains<StartingVerbs, AnyVerb>::value;
  constexpr bool kIsLocal = mp_contains<LocalVerbs, AnyVerb>::value;
  static_assert(kIsClient + kStartsDaemon + kIsLocal == 1, "each verb has its place in the table");
  if constexpr (std::is_same_v<AnyVerb, EnergyVerb>) {
    return verb.command.empty() ? VerbScope::asks : VerbScope::starts;
  } else {
    return kIsClient ? VerbScope::asks : kStartsDaemon ? VerbScope::starts : VerbScope::here;
  }
}

// The daemon that the verb's own options name.
struct DaemonField {
  std::string* socket = nullptr;       // where the verb has its daemon; null: it asks none
  const char* given_option = nullptr;  // the option that says it; null: none was given
};

DaemonField daemon_field_of(std::string& socket) {
  return {&socket, socket.empty() ? nullptr : "--socket"};
}

DaemonField daemon_field_of(SourceFlags& flags) {
  DaemonField source = daemon_field_of(flags.socket);
  if (flags.simulate) source.given_option = "--simulate";
  if (!flags.nvml.empty()) source.given_option = "--nvml";
  if (flags.local) source.given_option = "--local";
  return source;
}

template <class AnyVerb>
DaemonField daemon_field_of_verb(AnyVerb& verb) {
  if constexpr (boost::mp11::mp_contains<LocalVerbs, AnyVerb>::value) {
    return {};
  } else if constexpr (requires { verb.source; }) {
    return daemon_field_of(verb.source);
  } else {
    return daemon_field_of(verb.socket);
  }
}

// The words without -H; those behind -- belong to another program.
std::vector<std::string> without_host(const std::vector<std::string>& words) {
  std::vector<std::string> kept;
  auto word = words.begin();
  for (; word != words.end() && *word != "--"; ++word) {
    const bool value_follows = *word == "-H" || *word == "--host";
    if (value_follows && word + 1 != words.end()) ++word;
    if (value_follows || word->starts_with("-H") || word->starts_with("--host=")) continue;
    kept.push_back(*word);
  }
  kept.insert(kept.end(), word, words.end());
  return kept;
}

// A word that two shells, here and there, leave as it is.
bool is_plain_word(std::string_view word) {
  constexpr std::string_view kPlain = "._-+=:,@%/";
  const auto plain = [&](char c) { return is_alphanumeric(c) || kPlain.find(c) != kPlain.npos; };
  return !word.empty() && std::ranges::all_of(word, plain);
}

// The host for ssh; a daemon that is asked over https may be reached over ssh, too.
Result<client::SshHost> ssh_host_of(std::string_view address) {
  const auto origin = client::parse_https_url(address);
  if (origin) return client::SshHost{"", origin->host, 0, ""};
  return client::parse_ssh_url(address);
}

// " devices --gpu 'a b'"
std::string joined(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += " " + quote_shell_word(word);
  return line;
}

// "ssh lab gpuyard run -n 2 -- ./train.sh"
std::string remote_command_line(const client::SshHost& host,
                                const std::vector<std::string>& words) {
  std::string line = fmt::format("ssh {} {}", host.ssh_arguments(),
                                 host.program.empty() ? "gpuyard" : host.program);
  if (std::ranges::all_of(words, is_plain_word)) {
    for (const std::string& word : words) line += " " + word;
    return line;
  }
  return line + " " + words.front() + " ...";
}

// `named`: what the user said after -H; `address`: what it stands for, if that is known.
Error host_option_error(const std::string& verb, std::string_view named, std::string_view address,
                        const std::vector<std::string>& words) {
  const std::string line = "gpuyard" + joined(words);
  if (verb == "fleet") {
    return {Errc::invalid, "`gpuyard fleet` takes --hosts instead of -H", "",
            fmt::format("{} --hosts {}", line, quote_shell_word(named))};
  }
  const std::string what =
      fmt::format("`gpuyard {}` works only on the machine itself, so it takes no -H", verb);
  const auto host = ssh_host_of(address);
  return {Errc::invalid, what, "",
          host ? remote_command_line(*host, words) + "  # runs it on that machine" : line};
}

Error local_only_error(const std::string& verb, std::string_view by, std::string_view address,
                       const std::vector<std::string>& words) {
  const auto host = GPUYARD_TRY(ssh_host_of(address));
  Error error{
      Errc::invalid,
      fmt::format("`gpuyard {}` runs its command on this machine, but {} selects the GPUs of "
                  "another",
                  verb, by),
      "", remote_command_line(host, words) + "  # runs it there"};
  if (verb == "run") {
    error.hint += fmt::format("\ngpuyard -H {} lease take --for 1h  # leases its GPUs for an hour",
                              quote_shell_word(address));
  }
  return error;
}

// -H, else GPUYARD_HOST unless an option says whom to ask; nothing if neither names a host.
struct HostOption {
  std::string host;
  const char* given_by;
};
Result<std::optional<HostOption>> host_option_of(const DaemonField& source,
                                                 const DaemonSelection& selection) {
  if (selection.hosts.size() > 1) {
    return Error{Errc::invalid, "-H: given more than once", "a command connects to one daemon"};
  }
  if (!selection.hosts.empty()) {
    if (source.given_option != nullptr)
      return client::conflicting_daemons_error(source.given_option, "-H");
    return std::optional(HostOption{selection.hosts.front(), "-H"});
  }
  const bool can_be_meant = source.socket != nullptr && source.given_option == nullptr;
  if (!can_be_meant || selection.environment.gpuyard_host.empty())
    return std::optional<HostOption>();
  return std::optional(HostOption{selection.environment.gpuyard_host, "GPUYARD_HOST"});
}

// A socket is of this machine alone: `gpuyard run` believes that a daemon behind one sees it.
Result<void> check_sockets(const DaemonField& source, const Environment& environment) {
  if (source.socket == nullptr) return {};
  const std::string& used =
      source.given_option != nullptr ? *source.socket : environment.gpuyard_socket;
  if (!client::is_remote_address(used)) return {};
  return Error{
      Errc::invalid,
      fmt::format("{}: expected a socket of this machine; got \"{}\"",
                  source.given_option != nullptr ? source.given_option : "GPUYARD_SOCKET", used),
      "", fmt::format("gpuyard -H {} devices", quote_shell_word(used))};
}

bool is_same_socket(const std::string& socket, const std::string& address) {
  const auto endpoint = http::parse_endpoint(socket);
  return endpoint && endpoint->text() == address;
}

}  // namespace

VerbScope scope_of(const Verb& verb) {
  return std::visit([](const auto& one) { return scope_of_verb(one); }, verb);
}

Result<void> select_daemon(Verb& verb, const DaemonSelection& selection) {
  const Environment& environment = selection.environment;
  const DaemonField source = std::visit([](auto& one) { return daemon_field_of_verb(one); }, verb);
  const auto wanted = GPUYARD_TRY(host_option_of(source, selection));
  if (!wanted) return check_sockets(source, environment);
  const auto& [host, by] = *wanted;
  const auto address = client::resolve_address(host, hosts_file(environment));
  const auto words = without_host(selection.words);
  const std::string name = words.empty() ? "" : words.front();
  const VerbScope scope = scope_of(verb);
  if (scope == VerbScope::here)
    return host_option_error(name, host, address ? *address : "", words);
  if (!address) return Error(address.error()).in(by);
  if (selection.hosts.empty() && !environment.gpuyard_socket.empty() &&
      !is_same_socket(environment.gpuyard_socket, *address)) {
    return client::conflicting_daemons_error("GPUYARD_HOST", "GPUYARD_SOCKET");
  }
  if (scope == VerbScope::starts && client::is_remote_address(*address)) {
    return local_only_error(name, by, *address, words);
  }
  *source.socket = *address;
  return {};
}

}  // namespace gpuyard::cli
