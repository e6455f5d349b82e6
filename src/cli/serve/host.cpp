// gpuyard host: the names of remote daemons, in hosts.toml.
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/files.h"
#include "cli/control/control_daemon.h"
#include "cli/options.h"
#include "cli/read/json_output.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/output.h"
#include "cli/screen/reading_text.h"
#include "cli/screen/screen.h"
#include "cli/shared_options.h"
#include "cli/verbs.h"
#include "daemon/config/config.h"
#include "faces/client/daemon_address.h"
#include "io/http/client.h"

namespace gpuyard::cli {
namespace {

constexpr std::size_t kMaxHostsBytes = std::size_t{64} * 1024;
constexpr Duration kPinTimeout = std::chrono::seconds(10);

Printable certificate_text(const std::string& url, const http::PresentedCertificate& shown) {
  return formatted(
      "{} presents a certificate for {}, valid until {}, with the pin\n  {}\nCompare it with the "
      "pin that `gpuyard tls show` prints on that machine; if they differ, the connection may be "
      "intercepted.{}\n",
      url, fmt::join(shown.facts.names, ", "), zoned_moment(shown.facts.not_after, wall_now()),
      shown.facts.pin,
      shown.distrust_reason.empty() ? " It is signed by an authority this machine trusts." : "");
}

// The pin to write down: the one that the user gave, or has seen and agreed to.
Result<std::string> confirm_pin(const HostVerb& verb, const std::string& url,
                                const http::PresentedCertificate& shown) {
  if (!verb.pin.empty()) {
    if (verb.pin == shown.facts.pin) return verb.pin;
    return Error{Errc::denied,
                 fmt::format("{} presents the pin {}, not {}", url, shown.facts.pin, verb.pin),
                 "the connection may be intercepted, or the machine has a new key; ask its "
                 "administrator"};
  }
  print_stderr(certificate_text(url, shown));
  if (!is_interactive()) {
    return Error{
        Errc::denied, "cannot ask you to compare the pin without a terminal", "",
        fmt::format("gpuyard host add {} {} --pin {}  # if gpuyard tls show prints this pin "
                    "on that machine",
                    quote_shell_word(verb.name), url, shown.facts.pin)};
  }
  if (!confirm("Do the pins match?")) return Error{Errc::denied, "nothing was written"};
  return shown.facts.pin;
}

// Without quotes, a name with a dot would be two tables in TOML.
std::string entry_text(const std::string& name, const std::string& url, const std::string& pin,
                       const std::string& token_file) {
  const char* const quote = name.find('.') != name.npos ? "\"" : "";
  return fmt::format("[{0}{1}{0}]\nurl = \"{2}\"\npin = \"{3}\"\n{4}", quote, name, url, pin,
                     token_file.empty() ? "" : fmt::format("token_file = \"{}\"\n", token_file));
}

// Empty if there is no file.
Result<std::string> hosts_text(const std::string& file) {
  auto text = read_file(file, kMaxHostsBytes);
  if (!text && text.error().code == Errc::not_found) return std::string();
  return text;
}

int add(const HostVerb& verb, const std::string& file) {
  const auto origin = client::parse_https_url(verb.url);
  if (!origin) return print_error(Error(origin.error()).in("URL"));
  const std::string url = http::HttpsEndpoint{*origin}.url();
  if (!client::is_host_name(verb.name)) {
    return print_error(
        {Errc::invalid, fmt::format("NAME: expected a name such as dgx1; got \"{}\"", verb.name)});
  }
  // Also says what is wrong with the file.
  const auto known = client::resolve_address(verb.name, file);
  if (known) {
    return print_error({Errc::conflict,
                        fmt::format("{} already uses the name {} for {}", file, verb.name, *known),
                        "", fmt::format("gpuyard host remove {}", verb.name)});
  }
  if (known.error().code != Errc::not_found) return print_error(known.error());
  std::string token_file;
  if (!verb.token_file.empty()) token_file = std::filesystem::absolute(verb.token_file);
  if (token_file.find_first_of("\"\\\n") != token_file.npos) {
    return print_error(
        {Errc::invalid,
         "--token-file: the path must not contain quotes, backslashes or line breaks"});
  }
  std::error_code unknown;
  if (!token_file.empty() && !std::filesystem::is_regular_file(token_file, unknown)) {
    return print_error(
        {Errc::invalid,
         fmt::format("--token-file: expected a regular file; got \"{}\"", verb.token_file)});
  }
  const auto shown = http::fetch_certificate(*origin, kPinTimeout);
  if (!shown) return print_error(shown.error());
  const auto pin = confirm_pin(verb, url, *shown);
  if (!pin) return print_error(pin.error());
  const auto old = hosts_text(file);
  if (!old) return print_error(old.error());
  std::string text = *old;
  if (!text.empty()) text += text.ends_with('\n') ? "\n" : "\n\n";
  text += entry_text(verb.name, url, *pin, token_file);
  if (auto good = client::check_hosts(text, file); !good) {
    return print_error(Error(good.error()).in("nothing was written"));
  }
  if (auto made = make_directories(parent_directory(file), 0700); !made) {
    return print_error(made.error());
  }
  if (auto done = replace_file(file, text, 0600); !done) return print_error(done.error());
  print(formatted("{} added to {}. Try it: gpuyard -H {} devices\n", verb.name, file, verb.name));
  return 0;
}

int remove_host(const HostVerb& verb, const std::string& file) {
  const auto old = hosts_text(file);
  if (!old) return print_error(old.error());
  const auto left = client::remove_host(*old, verb.name, file);
  if (!left) {
    Error error = left.error();
    if (error.code == Errc::not_found) error.hint = "gpuyard host list";
    return print_error(error);
  }
  if (auto done = replace_file(file, *left, 0600); !done) return print_error(done.error());
  print(formatted("{} removed from {}\n", verb.name, file));
  return 0;
}

int list_hosts(const HostVerb& verb, const std::string& file) {
  const auto hosts = client::read_hosts_file(file);
  if (!hosts && hosts.error().code != Errc::not_found) return print_error(hosts.error());
  if (verb.json) {
    HostsAnswer answer;
    for (std::size_t i = 0; hosts && i < hosts->size(); ++i) {
      answer.hosts.push_back({(*hosts)[i].first, (*hosts)[i].second});
    }
    print(json_line(answer));
    return 0;
  }
  if (!hosts || hosts->empty()) {
    print(formatted("No hosts in {}. Add one with `gpuyard host add NAME https://HOST`.\n", file));
    return 0;
  }
  FittedTable table{{{"NAME"}, {"URL"}}};
  for (const auto& [name, url] : *hosts) table.add({{name}, {url}});
  print(table.text(Screen::of_stdout()));
  return 0;
}

}  // namespace

Options add_named_host(Options program, HostVerb& verb) {
  const Options host = program.verb("host", "Name remote daemons").requires_verb();
  host.explain(
          "A name, used as -H NAME, stands for the URL of a daemon, its pin and its token. The "
          "names are in hosts.toml, which also takes ssh:// URLs.")
      .example("gpuyard host add dgx1 https://dgx1.example.org")
      .example("gpuyard host list")
      .example("gpuyard host remove dgx1");
  const auto action = [&](HostVerb::Action what, const char* name, const char* summary) {
    return host.verb(name, summary).sets(verb.action, what);
  };
  const Options list = action(HostVerb::Action::list, "list", "List the named daemons");
  add_json(list, verb.json);
  list.example("gpuyard host list");
  const Options add =
      action(HostVerb::Action::add, "add", "Add a remote daemon over HTTPS after checking its pin");
  add.option("name", verb.name, "Name for -H").metavar("NAME").required();
  add.option("url", verb.url, "https://HOST[:PORT]; the default port is 9411")
      .metavar("URL")
      .required();
  add.option("--pin", verb.pin, "Accept only this pin, without asking").metavar("TEXT");
  add.option("--token-file", verb.token_file, "File containing the token for this daemon")
      .metavar("FILE");
  add.example("gpuyard host add dgx1 https://dgx1.example.org --token-file dgx1.token");
  const Options remove =
      action(HostVerb::Action::remove, "remove", "Remove a daemon from hosts.toml");
  remove.option("name", verb.name, "Name of the daemon").metavar("NAME").required();
  remove.example("gpuyard host remove dgx1");
  return host;
}

int run(const HostVerb& verb) {
  const std::string file = hosts_file(Environment::current());
  switch (verb.action) {
    case HostVerb::Action::list:
      return list_hosts(verb, file);
    case HostVerb::Action::add:
      return add(verb, file);
    case HostVerb::Action::remove:
      return remove_host(verb, file);
  }
  return exit_code_of(Errc::internal);
}

}  // namespace gpuyard::cli
