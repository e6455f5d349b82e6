// The routes of tokens. Only users whom the kernel names make, see and revoke them.
#include <algorithm>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/record.h"
#include "base/saturated.h"
#include "base/try.h"
#include "core/auth/token_store.h"
#include "faces/api/bound_route.h"
#include "faces/api/context.h"
#include "faces/api/gpu_names.h"
#include "faces/api/lease_view.h"
#include "faces/api/responder.h"

namespace gpuyard::api {
namespace {

protocol::Token view_of(const TokenApi& api, const auth::Token& token) {
  protocol::Token view{token, {}, {}, {}, {}};
  if (token.uid) view.user = api.users.name_of(*token.uid);
  const bool good = token.is_valid(api.loop.wall());
  view.state = good ? "good" : token.revoked ? "revoked" : "expired";
  if (api.tokens.has_unsaved_revocation(token.id)) view.not_kept = true;
  if (token.uid && api.users.is_gone(api.users.quota_owner(*token.uid))) view.user_gone = true;
  return view;
}

bool can_manage(const Principal& principal, const auth::Token& token) {
  return principal.scope >= Scope::admin || (token.uid && token.uid == principal.uid);
}

protocol::Tokens visible_tokens(const TokenApi& api, const Principal& principal) {
  protocol::Tokens view;
  for (const auth::Token& token : api.tokens.all()) {
    if (can_manage(principal, token)) view.tokens.push_back(view_of(api, token));
  }
  return view;
}

Error admin_only_error(std::string_view what) {
  return {Errc::denied, fmt::format("only an administrator of this machine may {}", what)};
}

Requester token_requester(const TokenApi& api, const RouteCall& call) {
  return {fmt::format("uid {}", api.users.quota_owner(call.peer.uid)),
          call.principal.scope >= Scope::admin};
}

Result<void> check_change_rate(const TokenApi& api, const Requester& requester) {
  const auto wait = api.tokens.count_change(requester);
  if (!wait) return {};
  return Error{
      Errc::busy,
      fmt::format(
          "the limit is {} created or revoked tokens per user per minute; try again in {} s",
          limits::kTokenChangesPerMinute, std::chrono::ceil<std::chrono::seconds>(*wait).count())};
}

// The length of a name is checked with the rest of the body.
Result<void> check_name(const std::string& name) {
  const bool plain = std::ranges::all_of(
      name, [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != '\x7f'; });
  if (plain) return {};
  return Error{Errc::invalid, "body: /name: must not contain control characters"};
}

// The owner and the lifetime of a new token.
Result<auth::TokenRequest> token_request_of(const Principal& principal,
                                            const protocol::TokenRequest& body) {
  const bool admin = principal.scope >= Scope::admin;
  GPUYARD_TRY(check_name(body.name));
  auth::TokenRequest request{.name = body.name,
                             .uid = body.uid ? body.uid : principal.uid,
                             .scope = body.scope,
                             .gpus = {},
                             .made_by = principal.name(),
                             .by_admin = admin};
  if (!admin && body.service.value_or(false)) return admin_only_error("create a service token");
  if (!admin && request.uid != principal.uid)
    return admin_only_error("create a token for another user");
  if (!admin && body.for_ever.value_or(false)) {
    return admin_only_error(
        "create a token that never expires; set a lifetime, e.g. --expires 90d");
  }
  if (body.for_ever.value_or(false) && body.lasts_s) {
    return Error{Errc::invalid, "body: /for_ever cannot be used with /lasts_s"};
  }
  if (body.service.value_or(false)) {
    if (body.uid) return Error{Errc::invalid, "body: /service cannot be used with /uid"};
    if (request.scope > Scope::read) {
      return Error{Errc::invalid,
                   "body: /scope: a service token can only read, because leases and settings "
                   "belong to a user; set the user it runs as with --user"};
    }
    request.uid = std::nullopt;
  }
  if (!body.for_ever.value_or(false)) {
    request.lifetime = duration_from_seconds(body.lasts_s.value_or(protocol::kDefaultTokenSeconds));
  }
  return request;
}

void get_tokens(TokenApi& api, const RouteCall& call, const NoParams&,
                const Responder<protocol::Tokens>& respond) {
  respond(visible_tokens(api, call.principal));
}

void make_token(TokenApi& api, const RouteCall& call, const NoParams&,
                const protocol::TokenRequest& body, const Responder<protocol::NewToken>& respond) {
  Requester requester = token_requester(api, call);
  if (auto counted = check_change_rate(api, requester); !counted) return respond(counted.error());
  auto request = token_request_of(call.principal, body);
  if (!request) return respond(std::move(request).error());
  request->quota_group = std::move(requester.quota_group);
  if (request->scope > call.principal.scope) {
    return respond(Error{
        Errc::denied, fmt::format("your own scope is \"{}\"; you cannot create a token with \"{}\"",
                                  enum_name(call.principal.scope), enum_name(request->scope))});
  }
  for (const protocol::GpuName& gpu : body.gpus.value_or(std::vector<protocol::GpuName>{})) {
    auto ids = resolve_gpu_ids(*api.telemetry.latest(), gpu.text);
    if (!ids) return respond(std::move(ids).error().in("body: /gpus"));
    request->gpus.insert(request->gpus.end(), ids->begin(), ids->end());
  }
  if (body.gpus && request->gpus.empty()) {
    return respond(Error{Errc::invalid, "body: /gpus: must not be empty; omit it for all GPUs"});
  }
  api.tokens.create(*std::move(request),
                    [&api, call, respond](const Result<auth::TokenStore::CreatedToken>& made) {
                      if (!made) return respond(made.error());
                      call.report_action(fmt::format(
                          "create token {} \"{}\" of {}, scope {}", made->token.id,
                          made->token.name, made->token.owner(), enum_name(made->token.scope)));
                      respond(protocol::NewToken{1, view_of(api, made->token), made->text});
                    });
}

void revoke(TokenApi& api, const RouteCall& call, const std::vector<std::string>& ids,
            const Responder<protocol::Tokens>& respond) {
  const auto changed = api.tokens.revoke(
      ids, call.principal.name(),
      [&api, call, respond](const Result<void>& result) {
        if (!result) return respond(result.error());
        respond(visible_tokens(api, call.principal));
      },
      token_requester(api, call));
  for (const std::string& id : changed) call.report_action("revoke token " + id);
}

// An ID is meant before a name. A name of revoked tokens alone changes nothing.
void revoke_token(TokenApi& api, const RouteCall& call, const protocol::TokenName& named,
                  const Responder<protocol::Tokens>& respond) {
  const auto counted = check_change_rate(api, token_requester(api, call));
  if (!counted) return respond(counted.error());
  std::vector<std::string> ids;
  bool was_revoked = false;
  for (const auth::Token& token : api.tokens.all()) {
    if (!can_manage(call.principal, token)) continue;
    if (token.id == named.token) return revoke(api, call, {token.id}, respond);
    if (token.name != named.token) continue;
    const bool open =
        token.is_valid(api.loop.wall()) || api.tokens.has_unsaved_revocation(token.id);
    if (open) ids.push_back(token.id);
    was_revoked = was_revoked || token.revoked;
  }
  if (ids.size() == 1 || (ids.empty() && was_revoked)) {
    return revoke(api, call, ids, respond);
  }
  respond(
      ids.empty()
          ? Error{Errc::not_found, fmt::format("you have no valid token \"{}\"", named.token), "",
                  "gpuyard token list"}
          : Error{Errc::conflict,
                  fmt::format("{} users have a token \"{}\"; use its ID", ids.size(), named.token),
                  "", "gpuyard token list"});
}

void revoke_tokens_of(TokenApi& api, const RouteCall& call, const protocol::TokenOwner& of,
                      const Responder<protocol::Tokens>& respond) {
  const auto counted = check_change_rate(api, token_requester(api, call));
  if (!counted) return respond(counted.error());
  if (call.principal.scope < Scope::admin && call.principal.uid != of.uid) {
    return respond(admin_only_error("revoke the tokens of another user"));
  }
  std::vector<std::string> ids;
  for (const auth::Token& token : api.tokens.all()) {
    const bool over = token.revoked && !api.tokens.has_unsaved_revocation(token.id);
    if (token.uid == of.uid && !over) ids.push_back(token.id);
  }
  revoke(api, call, ids, respond);
}

}  // namespace

std::vector<BoundRoute> token_routes() {
  return {
      bind(protocol::kTokens, &get_tokens),
      bind(protocol::kMakeToken, &make_token),
      bind(protocol::kRevokeToken, &revoke_token),
      bind(protocol::kRevokeUserTokens, &revoke_tokens_of),
  };
}

}  // namespace gpuyard::api
