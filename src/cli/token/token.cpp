// gpuyard token: the credentials of programs on other machines.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <set>

#include <fmt/format.h>

#include "base/files.h"
#include "base/local_time.h"
#include "base/text.h"
#include "base/try.h"
#include "base/unique_fd.h"
#include "cli/read/source_access.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/output.h"
#include "cli/screen/reading_text.h"
#include "cli/screen/screen.h"
#include "cli/shared_options.h"
#include "cli/token/gone_users.h"
#include "cli/verbs.h"
#include "core/processes/user_names.h"
#include "faces/client/daemon_client.h"
#include "faces/protocol/routes.h"

namespace gpuyard::cli {
namespace {

using TokenAction = TokenVerb::Action;

// The order in which columns are dropped where there is not room for all; the last goes first.
enum TokenDrops : int { never, used_from, made, ending };

std::string token_owner_text(const protocol::Token& token) {
  if (!token.uid) return "a service";
  return token.user ? *token.user : fmt::format("UID {}", *token.uid);
}

Printable tokens_text(const protocol::Tokens& tokens, WallTime now, const Screen& screen) {
  if (tokens.tokens.empty()) return "No tokens. Create one with `gpuyard token create NAME`.\n";
  FittedTable table{{{"ID"},
                     {"NAME"},
                     {"OWNER"},
                     {"SCOPE"},
                     {"GPUS", true},
                     {"STATE"},
                     {heading_with_zone("EXPIRES", now), false, TokenDrops::ending},
                     {heading_with_zone("LAST USED", now), false, TokenDrops::made},
                     {"FROM", false, TokenDrops::used_from}}};
  Printable warnings;
  for (const protocol::Token& token : tokens.tokens) {
    const bool good = token.state == "good";
    table.add({{token.id},
               {token.name},
               {token.uid ? token_owner_text(token) : "service"},
               {std::string(enum_name(token.scope))},
               {token.gpus.empty() ? "all" : std::to_string(token.gpus.size())},
               {(good ? "valid" : token.state) +
                    (token.not_kept.value_or(false) ? ", not stored yet" : ""),
                good ? Tone::plain : Tone::faint},
               {token.expires ? local_moment(*token.expires, now) : "never"},
               {token.last_used ? local_moment(*token.last_used, now) : "never"},
               {token.last_from.empty() ? std::string(kNothing) : token.last_from}});
    if (!good || !token.in_clear) continue;
    warnings += formatted(
        "{} ({}) was sent without TLS at {} and may be known to others. Create a new one, then run "
        "`gpuyard token revoke {}`.\n",
        token.id, token.name, zoned_moment(*token.in_clear, now), token.id);
  }
  for (const std::string& gone : gone_user_warnings(tokens)) warnings += formatted("{}\n", gone);
  return table.text(screen) + warnings;
}

// A new file, for its user alone; never one that is there.
Result<UniqueFd> new_secret_file(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return system_error("creating " + path);
  return file;
}

Result<void> write_secret(const UniqueFd& file, const std::string& path, std::string text) {
  text += '\n';
  const bool written =
      ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (written && ::fsync(file.get()) == 0) return {};
  return system_error("writing " + path);
}

// Names are of this machine: the daemon of another knows users by their numbers.
Result<std::uint32_t> uid_of(const TokenVerb& verb) {
  if (const auto number = parse_number<std::uint32_t>(verb.user)) return *number;
  if (!host_heading(verb.socket).empty()) {
    return Error{Errc::invalid, "--user: use the user's UID on that machine", "",
                 fmt::format("id -u {}  # on that machine", quote_shell_word(verb.user))};
  }
  return processes::look_up_uid(verb.user);
}

Result<protocol::TokenRequest> token_request_of(const TokenVerb& verb) {
  protocol::TokenRequest request;
  request.name = verb.name;
  request.scope = verb.scope;
  if (!verb.gpus.empty()) {
    request.gpus.emplace();
    for (const std::string& gpu : split(verb.gpus, ',')) request.gpus->push_back({gpu});
  }
  if (verb.expires == "never") {
    request.for_ever = true;
  } else if (!verb.expires.empty()) {
    const auto length = parse_lifetime(verb.expires);
    if (!length) return Error(length.error()).in("--expires");
    request.lasts_s = to_seconds(*length);
  }
  if (verb.service) request.service = true;
  if (verb.user.empty()) return request;
  const auto uid = uid_of(verb);
  if (!uid) return Error(uid.error()).in("--user");
  request.uid = *uid;
  return request;
}

int create(const TokenVerb& verb, const http::Endpoint& daemon) {
  const auto request = token_request_of(verb);
  if (!request) return print_error(request.error());
  // First, so that no token is made that has nowhere to go.
  UniqueFd file;
  if (!verb.out.empty()) {
    auto made = new_secret_file(verb.out);
    if (!made) return print_error(made.error());
    file = *std::move(made);
  }
  auto token = client::call_with_retry(daemon, protocol::kMakeToken, {}, *request);
  const auto kept = !token || !file ? Result<void>() : write_secret(file, verb.out, token->text);
  if (file && (!token || !kept)) ::unlink(verb.out.c_str());
  if (!token) return print_source_error(token.error());
  if (!kept) {
    const auto revoked = client::call_with_retry(daemon, protocol::kRevokeToken, {token->token.id});
    Error error = kept.error();
    if (!revoked) error.hint = fmt::format("gpuyard token revoke {}", token->token.id);
    return print_error(error);
  }
  if (file) token->text.clear();
  if (verb.json) {
    print(json_line(*token));
    return 0;
  }
  // Only the token on stdout, so that $(gpuyard token create ...) is it.
  if (!file) print(formatted("{}\n", token->text));
  print_stderr(formatted("{}token {} ({}), scope {}, {}{}\n", host_heading(verb.socket),
                         token->token.id, token->token.name, enum_name(token->token.scope),
                         token->token.expires
                             ? "expires " + zoned_moment(*token->token.expires, wall_now())
                             : "never expires",
                         file ? "; written to " + verb.out : "; it will not be shown again"));
  return 0;
}

int show(const TokenVerb& verb, const Result<protocol::Tokens>& tokens) {
  if (!tokens) return print_source_error(tokens.error());
  print(verb.json ? json_line(*tokens)
                  : host_heading(verb.socket) +
                        tokens_text(*tokens, wall_now(), Screen::of_stdout(verb.color)));
  return 0;
}

// Names the tokens that were revoked, of those that `before` has; else says that none was valid.
Printable revoked_text(const TokenVerb& verb, const protocol::Tokens& before,
                       const protocol::Tokens& after) {
  std::set<std::string> open;
  for (const protocol::Token& token : before.tokens) {
    if (token.state != "revoked" || token.not_kept.value_or(false)) open.insert(token.id);
  }
  Printable text;
  for (const protocol::Token& token : after.tokens) {
    if (token.state != "revoked" || !open.contains(token.id)) continue;
    text +=
        formatted("Revoked token {} ({}) of {}.\n", token.id, token.name, token_owner_text(token));
  }
  if (!text.empty()) return text;
  return verb.user.empty() ? formatted("Token \"{}\" is already revoked.\n", verb.name)
                           : formatted("{} has no valid tokens.\n", verb.user);
}

int revoke(const TokenVerb& verb, const http::Endpoint& daemon) {
  if (verb.name.empty() == verb.user.empty()) {
    return print_error({Errc::invalid,
                        verb.name.empty() ? "token revoke needs TOKEN or --user USER"
                                          : "TOKEN cannot be used with --user",
                        "", "gpuyard token list"});
  }
  const auto before = client::call_with_retry(daemon, protocol::kTokens);
  if (!before) return print_source_error(before.error());
  const auto revoked = [&]() -> Result<protocol::Tokens> {
    if (!verb.name.empty())
      return client::call_with_retry(daemon, protocol::kRevokeToken, {verb.name});
    const auto uid = uid_of(verb);
    if (!uid) return Error(uid.error()).in("--user");
    return client::call_with_retry(daemon, protocol::kRevokeUserTokens, {*uid});
  }();
  if (!revoked && revoked.error().code == Errc::not_found && verb.user.empty()) {
    return print_error({Errc::not_found, fmt::format("token \"{}\" not found", verb.name), "",
                        "gpuyard token list"});
  }
  if (!revoked) return print_source_error(revoked.error());
  print(verb.json ? json_line(*revoked)
                  : host_heading(verb.socket) + revoked_text(verb, *before, *revoked));
  return 0;
}

}  // namespace

Options add_token(Options program, TokenVerb& verb) {
  const Options token =
      program.verb("token", "Manage access tokens for remote programs").requires_verb();
  token.example("gpuyard token create grafana --scope metrics --out grafana.token")
      .example("gpuyard token list")
      .example("gpuyard token revoke grafana");
  const auto action = [&](TokenAction what, const char* name, const char* summary) {
    const Options sub = token.verb(name, summary).sets(verb.action, what);
    add_output_options(sub, verb);
    return sub;
  };
  using enum gpuyard::auth::Scope;
  const Options create = action(TokenAction::create, "create", "Create a token and print it once");
  create.option("name", verb.name, "Name of the token, e.g. of the program that will use it")
      .metavar("NAME")
      .required();
  const Options rights = create.heading("Rights");
  rights
      .option("--scope", verb.scope,
              {{"metrics", metrics},
               {"read", read},
               {"lease", lease},
               {"control", control},
               {"admin", admin}},
              "Highest scope: metrics, read, lease, control or admin; at most the user's own")
      .metavar("NAME")
      .default_is("read");
  add_gpus(rights, verb.gpus, "Restrict to these GPUs: indexes, UUIDs or PCI addresses")
      .default_is("all");
  rights.option("--expires", verb.expires, "Lifetime, e.g. 12h or 30d, or never")
      .metavar("DURATION")
      .default_is("90d");
  rights.flag("--service", verb.service,
              "Create a read-only token that belongs to no user (administrators only)");
  rights.option("--user", verb.user, "Create the token for this user (administrators only)")
      .metavar("USER");
  create.option("--out", verb.out, "Write the token to a new file that only you can read")
      .metavar("FILE");
  create.example("gpuyard token create laptop --scope lease --out laptop.token")
      .example("gpuyard token create grafana --service --scope metrics --expires never");
  action(TokenAction::list, "list", "List your tokens; as an administrator, those of all users")
      .example("gpuyard token list");
  const Options revoke =
      action(TokenAction::revoke, "revoke", "Revoke a token and close its streams");
  revoke.option("token", verb.name, "ID or name of the token").metavar("TOKEN");
  revoke.option("--user", verb.user, "Revoke all tokens of this user")
      .metavar("USER")
      .formerly("--all-of");
  revoke
      .usage({"gpuyard token revoke TOKEN [OPTIONS]\tRevoke one token",
              "gpuyard token revoke --user USER [OPTIONS]\tRevoke all tokens of a user"})
      .example("gpuyard token revoke laptop")
      .example("gpuyard token revoke --user alice");
  return token;
}

int run(const TokenVerb& verb) {
  const auto daemon = require_daemon(verb.socket, "tokens need");
  if (!daemon) return print_source_error(daemon.error());
  if (verb.action == TokenAction::create) return create(verb, *daemon);
  if (verb.action == TokenAction::revoke) return revoke(verb, *daemon);
  return show(verb, client::call_with_retry(*daemon, protocol::kTokens));
}

}  // namespace gpuyard::cli
