// gpuyard tls: the certificate that the daemon shows to clients elsewhere.
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/files.h"
#include "base/identifiers.h"
#include "base/local_time.h"
#include "base/text.h"
#include "cli/read/json_output.h"
#include "cli/screen/output.h"
#include "cli/screen/reading_text.h"
#include "cli/shared_options.h"
#include "cli/verbs.h"
#include "daemon/config/config.h"
#include "daemon/config/keys.h"
#include "faces/client/local_daemon.h"
#include "io/http/certificate.h"
#include "io/http/self_signed.h"

namespace gpuyard::cli {
namespace {

constexpr std::size_t kMaxPemBytes = std::size_t{256} * 1024;

Result<config::Config> configuration(const TlsVerb& verb) {
  auto loaded = config::load(Environment::current(), verb.config_file);
  if (loaded && !verb.state.empty()) loaded->state.directory = verb.state;
  return loaded;
}

// The names by which clients call this machine.
std::vector<std::string> names_of(const TlsVerb& verb) {
  if (!verb.hosts.empty()) return split(verb.hosts, ',');
  return {host_name(), "localhost", "127.0.0.1", "::1"};
}

int show(const TlsVerb& verb, const config::Config& config) {
  const auto pem = read_file(config.certificate_file(), kMaxPemBytes);
  if (!pem) {
    Error error = pem.error();
    if (error.code == Errc::not_found) {
      // Only root finds the certificate of the package's daemon.
      if (::geteuid() != 0 && verb.state.empty() && client::has_service()) {
        error.hint = "sudo gpuyard tls show  # the certificate of this machine's service\n";
      }
      error.hint += "gpuyard tls init";
      if (!verb.config_file.empty())
        error.hint += " --config " + quote_shell_word(verb.config_file);
      if (!verb.state.empty()) error.hint += " --state " + quote_shell_word(verb.state);
    }
    return print_error(error);
  }
  const auto facts = http::parse_facts(*pem);
  if (!facts) return print_error(Error(facts.error()).in(config.certificate_file()));
  const TlsAnswer answer{1,
                         config.certificate_file(),
                         config.key_file(),
                         facts->names,
                         to_rfc3339(facts->not_before),
                         to_rfc3339(facts->not_after),
                         facts->pin,
                         facts->fingerprint,
                         config.tls.listen};
  if (verb.json) {
    print(json_line(answer));
    return 0;
  }
  const WallTime now = wall_now();
  print(formatted(
      "certificate  {}\nkey          {}\nnames        {}\nvalid        {} to {} {}{}\npin   "
      "       {}\nfingerprint  {}\nlistening    {}\n",
      answer.certificate, answer.key, fmt::join(answer.names, ", "),
      local_time(facts->not_before, TimeDetail::minute),
      local_time(facts->not_after, TimeDetail::minute), zone_name(now),
      facts->not_after <= now ? " (expired)" : "", answer.pin, answer.fingerprint,
      answer.listen.empty() ? "no: tls.listen is empty"
                            : fmt::format("{}", fmt::join(answer.listen, ", "))));
  return 0;
}

int init(const TlsVerb& verb, const config::Config& config) {
  const std::string certificate = config.certificate_file();
  const std::string key = config.key_file();
  const auto old_key = read_file(key, kMaxPemBytes);
  if (!old_key && old_key.error().code != Errc::not_found) return print_error(old_key.error());
  const bool there = ::access(certificate.c_str(), F_OK) == 0;
  // Another's certificate is not ours to replace.
  if (there && !config.tls.certificate.empty()) {
    return print_error({Errc::conflict,
                        fmt::format("{} already exists and is set as tls.certificate", certificate),
                        "renew it where it was issued, or move it away"});
  }
  const auto made = http::make_self_signed(names_of(verb), wall_now(), http::kCertificateLifetime,
                                           old_key ? *old_key : "");
  if (!made) return print_error(made.error());
  if (auto place = make_directories(parent_directory(key), 0700); !place) {
    return print_error(place.error());
  }
  auto done = old_key ? Result<void>() : replace_file(key, made->key, 0600);
  if (done) done = replace_file(certificate, made->certificate, 0644);
  return done ? show(verb, config) : print_error(done.error());
}

// Root becomes the daemon's user: the daemon must be able to read the files, and root must not
// write where that user could lead it elsewhere by a link.
Result<void> become_owner_of(const std::string& directory) {
  struct stat state{};
  if (::geteuid() != 0 || ::stat(directory.c_str(), &state) != 0 || state.st_uid == 0) return {};
  if (::setgroups(0, nullptr) != 0 || ::setegid(state.st_gid) != 0 ||
      ::seteuid(state.st_uid) != 0) {
    return system_error("switching to the owner of " + directory);
  }
  return {};
}

}  // namespace

Options add_tls(Options program, TlsVerb& verb) {
  const Options tls =
      program.verb("tls", "Create or show the TLS certificate for remote clients").requires_verb();
  tls.example("sudo gpuyard tls init").example("gpuyard tls show");
  const auto action = [&](TlsVerb::Action what, const char* name, const char* summary) {
    const Options sub = tls.verb(name, summary).sets(verb.action, what);
    sub.option("--config", verb.config_file,
               "Configuration file to read instead of the default files")
        .metavar("FILE");
    sub.option("--state", verb.state, "State directory, if the daemon runs with --state")
        .metavar("DIR");
    add_json(sub, verb.json);
    return sub;
  };
  const Options init =
      action(TlsVerb::Action::init, "init", "Create a certificate, or renew it with the same key");
  init.option("--name", verb.hosts, "Host names and addresses that clients use for this machine")
      .metavar("NAME,...");
  init.example("sudo gpuyard tls init")
      .example("sudo gpuyard tls init --name gpu1.example.org,10.0.0.7");
  action(TlsVerb::Action::show, "show", "Show the names, expiry and pin of the certificate")
      .example("gpuyard tls show");
  return tls;
}

int run(const TlsVerb& verb) {
  const auto config = configuration(verb);
  if (!config) return print_error(config.error());
  const bool own_place = config->key_file().starts_with(config->state.directory + "/");
  if (own_place) {
    if (auto done = become_owner_of(config->state.directory); !done)
      return print_error(done.error());
  }
  return verb.action == TlsVerb::Action::init ? init(verb, *config) : show(verb, *config);
}

}  // namespace gpuyard::cli
