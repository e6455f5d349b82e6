// Tokens on the wire: what a program shows over TLS in place of a user.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "base/json_shape.h"
#include "core/auth/token.h"
#include "faces/protocol/energy.h"

namespace gpuyard::protocol {

// In seconds.
inline constexpr double kMinTokenSeconds = auth::kMinTokenLifetime.count();
inline constexpr double kMaxTokenSeconds = auth::kMaxTokenLifetime.count();  // ten years
inline constexpr double kDefaultTokenSeconds = 7'776'000;                    // 90 days

struct TokenRequest {
  std::string name;
  auth::Scope scope = auth::Scope::read;
  std::optional<std::vector<GpuName>> gpus;
  std::optional<double> lasts_s;
  std::optional<bool> for_ever;
  std::optional<bool> service;
  std::optional<std::uint32_t> uid;
};
BOOST_DESCRIBE_STRUCT(TokenRequest, (), (name, scope, gpus, lasts_s, for_ever, service, uid))
GPUYARD_ABOUT(TokenRequest,
              {"name", "Name, 1 to 64 printable characters; unique among a user's valid tokens.", 1,
               kMaxNameBytes},
              {"scope", "Highest scope of the token; never more than its user currently has."},
              {"gpus",
               "GPUs the token is limited to: indexes, UUIDs or PCI addresses. Default: all.", 1,
               kMaxGpuNames},
              {"lasts_s", "Lifetime in seconds; at most ten years. Default: 90 days.",
               kMinTokenSeconds, kMaxTokenSeconds},
              {"for_ever", "Never expires. Administrators only."},
              {"service", "Belongs to no user and can only read. Administrators only."},
              {"uid", "Owner of the token. Only administrators can set another user.", 0, kMaxUid})

// The digest stays with the daemon.
struct Token : auth::Token {
  std::optional<std::string> user;
  std::string state;
  std::optional<bool> not_kept;
  std::optional<bool> user_gone;
};
BOOST_DESCRIBE_STRUCT(Token, (),
                      (id, name, uid, user, scope, gpus, state, made, made_by, expires, last_used,
                       last_from, in_clear, revoked, revoked_by, not_kept, user_gone))
GPUYARD_ABOUT(
    Token, {"uid", "Owner; null: a service."},
    {"gpus", "UUIDs of the GPUs it is limited to; empty: all GPUs."},
    {"state", "State: \"good\", \"expired\" or \"revoked\"."}, {"expires", "Expiry; null: never."},
    {"last_used", "When it was last used, to the minute."},
    {"last_from", "Address or user that last used it."},
    {"in_clear", "When it was last sent without TLS and may have been read by others; replace it."},
    {"not_kept",
     "True if its last change is not stored yet: a restart now would undo it. gpuyard "
     "keeps retrying."},
    {"user_gone",
     "True if this machine has no user with the UID. A new user with the UID would own the "
     "token."})

struct Tokens {
  int schema = 1;
  std::vector<Token> tokens;  // by the time at which they were made
};
BOOST_DESCRIBE_STRUCT(Tokens, (), (schema, tokens))

struct NewToken {
  int schema = 1;
  Token token;
  std::string text;
};
BOOST_DESCRIBE_STRUCT(NewToken, (), (schema, token, text))
GPUYARD_ABOUT(NewToken, {"text", "The token itself; returned only once."})

struct TokenName {
  std::string token;
};
BOOST_DESCRIBE_STRUCT(TokenName, (), (token))
GPUYARD_ABOUT(TokenName, {"token", "ID of a token, or the name of one of the caller's tokens."})

struct TokenOwner {
  std::uint32_t uid = 0;
};
BOOST_DESCRIBE_STRUCT(TokenOwner, (), (uid))
GPUYARD_ABOUT(TokenOwner, {"uid", "Owner of the tokens.", 0, 4294967295.0})

}  // namespace gpuyard::protocol

namespace gpuyard::json {

// A token has no scope below the first that needs one.
template <>
inline constexpr auto shapes::words_of<auth::Scope> =
    shapes::words(boost::mp11::mp_pop_front<boost::describe::describe_enumerators<auth::Scope>>{});

GPUYARD_SCHEMA(protocol::TokenRequest);
GPUYARD_SCHEMA(protocol::Token);
GPUYARD_SCHEMA(protocol::Tokens);
GPUYARD_SCHEMA(protocol::NewToken);

}  // namespace gpuyard::json
