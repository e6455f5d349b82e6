// Which daemon a verb asks: the table of what each verb does, and what -H, GPUYARD_HOST, --socket
// and the like mean together. Opens no connection.
#include <algorithm>
#include <optional>
#include <type_traits>

#include <fmt/format.h>
#include <boost/mp11/algorithm.hpp>

#include "base/files.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "faces/client/local.h"

namespace gpuyard::cli {
namespace {

// The table: every verb stands in one row. A verb that is in none does not compile.

using Asking =
    boost::mp11::mp_list<DevicesVerb, TopVerb, WatchVerb, EventsVerb, RecordVerb, HistoryVerb,
                         WhyVerb, QueryVerb, ProcessesVerb, DriverVerb, EnergyVerb, DoctorVerb,
                         ControlVerb, AuditVerb, OperationsVerb, LeaseVerb, LeasesVerb, QueueVerb,
                         FreeVerb, CordonVerb, UsageVerb, AlertsVerb, TokenVerb>;
using Starting = boost::mp11::mp_list<RunVerb>;  // and EnergyVerb, if it is given a command
using OfThisMachine =
    boost::mp11::mp_list<ServeVerb, ReplayVerb, ConfigVerb, TlsVerb, HostVerb, FleetVerb, SlurmVerb,
                         SimVerb, DialStdioVerb, VersionVerb, SchemaVerb, CompletionVerb>;

template <class AnyVerb>
Reach reach_of_one(const AnyVerb& verb) {
  using boost::mp11::mp_contains;
  constexpr bool kAsks = mp_contains<Asking, AnyVerb>::value;
  constexpr bool kStarts = mp_contains<Starting, AnyVerb>::value;
  constexpr bool kHere = mp_contains<OfThisMachine, AnyVerb>::value;
  static_assert(kAsks + kStarts + kHere == 1, "each verb has its place in the table");
  if constexpr (std::is_same_v<AnyVerb, EnergyVerb>) {
    return verb.command.empty() ? Reach::asks : Reach::starts;
  } else {
    return kAsks ? Reach::asks : kStarts ? Reach::starts : Reach::here;
  }
}

// What the verb's own options say about whom to ask.
struct Addressee {
  std::string* socket = nullptr;  // where the verb has its daemon; null: it asks none
  const char* given = nullptr;    // the option that says it; null: none was given
};

Addressee source_of(std::string& socket) {
  return {&socket, socket.empty() ? nullptr : "--socket"};
}

Addressee source_of(SourceFlags& flags) {
  Addressee source = source_of(flags.socket);
  if (flags.simulate) source.given = "--simulate";
  if (!flags.nvml.empty()) source.given = "--nvml";
  if (flags.local) source.given = "--local";
  return source;
}

template <class AnyVerb>
Addressee source_of_one(AnyVerb& verb) {
  if constexpr (boost::mp11::mp_contains<OfThisMachine, AnyVerb>::value) {
    return {};
  } else if constexpr (requires { verb.source; }) {
    return source_of(verb.source);
  } else {
    return source_of(verb.socket);
  }
}

// What the user would type instead.

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
  const auto plain = [&](char c) {
    const bool digit = c >= '0' && c <= '9';
    return digit || (to_lower(c) >= 'a' && to_lower(c) <= 'z') || kPlain.find(c) != kPlain.npos;
  };
  return !word.empty() && std::ranges::all_of(word, plain);
}

// How ssh would reach that host; a daemon that is asked over https may be reached so, too.
Result<client::SshHost> ssh_host_of(std::string_view address) {
  const auto origin = client::parse_https_url(address);
  if (origin) return client::SshHost{"", origin->host, 0, ""};
  return client::parse_ssh_url(address);
}

// " devices --gpu 'a b'"
std::string joined(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += " " + shell_word(word);
  return line;
}

// "ssh lab gpuyard run -n 2 -- ./train.sh"
std::string line_there(const client::SshHost& host, const std::vector<std::string>& words) {
  std::string line =
      fmt::format("ssh {} {}", host.for_people(), host.program.empty() ? "gpuyard" : host.program);
  if (std::ranges::all_of(words, is_plain_word)) {
    for (const std::string& word : words) line += " " + word;
    return line;
  }
  return line + " " + words.front() + " ...";
}

// `named`: what the user said after -H; `address`: what it stands for, if that is known.
Error no_use_for_host(const std::string& verb, std::string_view named, std::string_view address,
                      const std::vector<std::string>& words) {
  const std::string line = "gpuyard" + joined(words);
  if (verb == "fleet") {
    return {Errc::invalid, "`gpuyard fleet` takes --hosts instead of -H", "",
            fmt::format("{} --hosts {}", line, shell_word(named))};
  }
  const std::string what =
      fmt::format("`gpuyard {}` works only on the machine itself, so it takes no -H", verb);
  const auto host = ssh_host_of(address);
  return {Errc::invalid, what, "",
          host ? line_there(*host, words) + "  # runs it on that machine" : line};
}

Error starts_here(const std::string& verb, std::string_view by, std::string_view address,
                  const std::vector<std::string>& words) {
  const auto host = ssh_host_of(address);
  if (!host) return host.error();
  Error error{
      Errc::invalid,
      fmt::format("`gpuyard {}` runs its command on this machine, but {} selects the GPUs of "
                  "another",
                  verb, by),
      "", line_there(*host, words) + "  # runs it there"};
  if (verb == "run") {
    error.hint += fmt::format("\ngpuyard -H {} lease take --for 1h  # leases its GPUs for an hour",
                              shell_word(address));
  }
  return error;
}

// -H, else GPUYARD_HOST unless an option says whom to ask; nothing if neither names a host.
struct Wanted {
  std::string host;
  const char* by;
};
Result<std::optional<Wanted>> wanted_of(const Addressee& source, const Aim& said) {
  if (said.hosts.size() > 1) {
    return Error{Errc::invalid, "-H: given more than once", "a command connects to one daemon"};
  }
  if (!said.hosts.empty()) {
    if (source.given != nullptr) return client::two_daemons(source.given, "-H");
    return std::optional(Wanted{said.hosts.front(), "-H"});
  }
  const bool can_be_meant = source.socket != nullptr && source.given == nullptr;
  if (!can_be_meant || said.environment.gpuyard_host.empty()) return std::optional<Wanted>();
  return std::optional(Wanted{said.environment.gpuyard_host, "GPUYARD_HOST"});
}

// A socket is of this machine alone: `gpuyard run` believes that a daemon behind one sees it.
Result<void> check_sockets(const Addressee& source, const Environment& environment) {
  if (source.socket == nullptr) return {};
  const std::string& used = source.given != nullptr ? *source.socket : environment.gpuyard_socket;
  if (!client::is_elsewhere(used)) return {};
  return Error{Errc::invalid,
               fmt::format("{}: expected a socket of this machine; got \"{}\"",
                           source.given != nullptr ? source.given : "GPUYARD_SOCKET", used),
               "", fmt::format("gpuyard -H {} devices", shell_word(used))};
}

bool is_same_socket(const std::string& socket, const std::string& address) {
  const auto endpoint = http::parse_endpoint(socket);
  return endpoint && endpoint->text() == address;
}

}  // namespace

Reach reach_of(const Verb& verb) {
  return std::visit([](const auto& one) { return reach_of_one(one); }, verb);
}

Result<void> aim(Verb& verb, const Aim& said) {
  const Environment& environment = said.environment;
  const Addressee source = std::visit([](auto& one) { return source_of_one(one); }, verb);
  const auto wanted = wanted_of(source, said);
  if (!wanted) return wanted.error();
  if (!*wanted) return check_sockets(source, environment);
  const auto& [host, by] = **wanted;
  const auto address = client::address_of(host, hosts_file(environment));
  const auto words = without_host(said.words);
  const std::string name = words.empty() ? "" : words.front();
  const Reach reach = reach_of(verb);
  if (reach == Reach::here) return no_use_for_host(name, host, address ? *address : "", words);
  if (!address) return Error(address.error()).in(by);
  if (said.hosts.empty() && !environment.gpuyard_socket.empty() &&
      !is_same_socket(environment.gpuyard_socket, *address)) {
    return client::two_daemons("GPUYARD_HOST", "GPUYARD_SOCKET");
  }
  if (reach == Reach::starts && client::is_elsewhere(*address)) {
    return starts_here(name, by, *address, words);
  }
  *source.socket = *address;
  return {};
}

}  // namespace gpuyard::cli
