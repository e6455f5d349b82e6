// gpuyard host: the daemons of other machines that are asked over https, by names of our own.
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/files.h"
#include "base/text.h"
#include "cli/control/control_daemon.h"
#include "cli/options.h"
#include "cli/screen/reading_text.h"
#include "cli/screen/terminal.h"
#include "cli/verbs.h"
#include "client/hosts.h"
#include "daemon/config/config.h"
#include "http/client.h"

namespace gpuyard::cli {
namespace {

constexpr std::size_t kMostOfHosts = std::size_t{64} * 1024;
constexpr Duration kPinDeadline = std::chrono::seconds(10);

Printable shown_text(const std::string& url, const http::PresentedCertificate& shown) {
  return formatted(
      "{} presents a certificate for {}, valid until {}, with the pin\n  {}\nCompare it with the "
      "pin that `gpuyard tls show` prints on that machine; if they differ, the connection may be "
      "intercepted.{}\n",
      url, fmt::join(shown.facts.names, ", "),
      local_moment(to_rfc3339(shown.facts.not_after), wall_now()), shown.facts.pin,
      shown.distrust.empty() ? " It is signed by an authority this machine trusts." : "");
}

// The pin to write down: the one that the user gave, or has seen and agreed to.
Result<std::string> agreed_pin(const HostVerb& verb, const std::string& url,
                               const http::PresentedCertificate& shown) {
  if (!verb.pin.empty()) {
    if (verb.pin == shown.facts.pin) return verb.pin;
    return Error{Errc::denied,
                 fmt::format("{} presents the pin {}, not {}: the connection may be intercepted, "
                             "or the machine has a new key; ask its administrator",
                             url, shown.facts.pin, verb.pin)};
  }
  print_error(shown_text(url, shown));
  if (!can_be_asked()) {
    return Error{Errc::denied,
                 "cannot ask you to compare the pin without a terminal; pass the pin that `gpuyard "
                 "tls show` prints there with --pin"};
  }
  if (!consents("Do the pins match?")) return Error{Errc::denied, "nothing was written"};
  return shown.facts.pin;
}

int add(const HostVerb& verb) {
  const std::string file = hosts_file(Environment::of_process());
  const auto origin = client::parse_https_url(verb.url);
  if (!origin) return complain(origin.error());
  const std::string url = http::TlsPlace{*origin}.url();
  // Also says what is wrong with the name or with the file.
  const auto known = client::address_of(verb.name, file);
  if (known) {
    return complain(
        {Errc::conflict,
         fmt::format(
             "{} already uses this name for {}; remove that entry first, or choose another name",
             file, *known)});
  }
  if (known.error().code != Errc::not_found) return complain(known.error());
  const auto shown = http::look_at(*origin, kPinDeadline);
  if (!shown) return complain(shown.error());
  const auto pin = agreed_pin(verb, url, *shown);
  if (!pin) return complain(pin.error());
  const auto old = read_file(file, kMostOfHosts);
  if (!old && old.error().code != Errc::not_found) return complain(old.error());
  std::string text = old ? *old : "";
  if (!text.empty() && !text.ends_with('\n')) text += '\n';
  text += fmt::format("{}[{}]\nurl = \"{}\"\npin = \"{}\"\n", text.empty() ? "" : "\n", verb.name,
                      url, *pin);
  if (!verb.token_file.empty()) {
    const std::string path = std::filesystem::absolute(verb.token_file);
    if (path.find_first_of("\"\\\n") != path.npos) {
      return complain(
          {Errc::invalid,
           "--token-file: the path must not contain quotes, backslashes or line breaks"});
    }
    text += fmt::format("token_file = \"{}\"\n", path);
  }
  if (auto made = make_directories(parent_directory(file), 0700); !made) {
    return complain(made.error());
  }
  if (auto done = replace_file(file, text, 0600); !done) return complain(done.error());
  print(formatted("{} added to {}. Try it: gpuyard -H {} devices\n", verb.name, file, verb.name));
  return 0;
}

}  // namespace

Options add_named_host(Options program, HostVerb& verb) {
  const Options host = program.verb("host", "Name remote daemons").requires_verb();
  const Options add = host.verb("add", "Add a remote daemon over HTTPS after checking its pin");
  add.option("name", verb.name, "Name for -H").type_name("NAME").required();
  add.option("url", verb.url, "https://HOST[:PORT] [default port: 9411]")
      .type_name("URL")
      .required();
  add.option("--pin", verb.pin, "Accept only this pin, without asking").type_name("PIN");
  add.option("--token-file", verb.token_file, "File containing the token for this daemon")
      .type_name("FILE");
  return host;
}

int run(const HostVerb& verb) {
  return add(verb);
}

}  // namespace gpuyard::cli
