// Tokens on the wire: what a program shows over TLS in place of a user.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "access/token.h"
#include "base/json_shape.h"
#include "protocol/energy.h"

namespace gpuyard::protocol {

// In seconds.
inline constexpr double kShortestToken = access::kShortestLife.count();
inline constexpr double kLongestToken = access::kLongestLife.count();  // ten years
inline constexpr double kUsualToken = 7'776'000;                       // 90 days

enum class TokenScope : std::uint8_t { metrics, read, lease, control, admin };
BOOST_DESCRIBE_ENUM(TokenScope, metrics, read, lease, control, admin)

struct TokenWish {
  std::string name;
  TokenScope scope = TokenScope::read;
  std::optional<std::vector<GpuName>> gpus;
  std::optional<double> lasts_s;
  std::optional<bool> for_ever;
  std::optional<bool> service;
  std::optional<std::uint32_t> uid;
};
BOOST_DESCRIBE_STRUCT(TokenWish, (), (name, scope, gpus, lasts_s, for_ever, service, uid))
GPUYARD_ABOUT(TokenWish,
              {"name",
               "For people: what uses it. 1 to 64 printable characters; no two good tokens "
               "of one user have the same.",
               1, kLongestName},
              {"scope", "The most that it may; it never may more than its user may at that time."},
              {"gpus", "The only GPUs it is for: indexes, UUIDs or PCI addresses. All.", 1,
               kMostGpuNames},
              {"lasts_s", "It expires after so many seconds; at most ten years. 90 days.",
               kShortestToken, kLongestToken},
              {"for_ever", "It never expires. Only administrators."},
              {"service", "It is no user's, and may only read. Only administrators."},
              {"uid", "The user whose it is. Only administrators name another than themselves.", 0,
               kLastUid})

struct Token {
  std::string id;
  std::string name;
  std::optional<std::uint32_t> uid;
  std::optional<std::string> user;
  TokenScope scope{};
  std::vector<std::string> gpus;
  std::string state;
  std::string made;
  std::string made_by;
  std::optional<std::string> expires;
  std::optional<std::string> last_used;
  std::string last_from;
  std::optional<std::string> in_clear;
  std::optional<std::string> revoked;
  std::string revoked_by;
  std::optional<bool> not_kept;
  std::optional<bool> user_gone;
};
BOOST_DESCRIBE_STRUCT(Token, (),
                      (id, name, uid, user, scope, gpus, state, made, made_by, expires, last_used,
                       last_from, in_clear, revoked, revoked_by, not_kept, user_gone))
GPUYARD_ABOUT(
    Token, {"uid", "Whose it is; null: a service's."}, {"gpus", "UUIDs; none: all GPUs."},
    {"state", "\"good\", \"expired\" or \"revoked\"."}, {"expires", "Null: never."},
    {"last_used", "Known to the minute."},
    {"last_from", "The address or user that showed it last."},
    {"in_clear",
     "When it was last sent without TLS, where others may have read it: make a new one."},
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
GPUYARD_ABOUT(NewToken, {"text", "The token itself, which is told only here and now."})

struct TokenName {
  std::string token;
};
BOOST_DESCRIBE_STRUCT(TokenName, (), (token))
GPUYARD_ABOUT(TokenName, {"token", "The id of a token, or the name of one of the caller's."})

struct TokensOf {
  std::uint32_t uid = 0;
};
BOOST_DESCRIBE_STRUCT(TokensOf, (), (uid))
GPUYARD_ABOUT(TokensOf, {"uid", "The user whose tokens are meant.", 0, 4294967295.0})

}  // namespace gpuyard::protocol

namespace gpuyard::json {

template <OneOf<protocol::TokenWish, protocol::Token, protocol::Tokens, protocol::NewToken> T>
inline constexpr bool has_schema<T> = true;

}  // namespace gpuyard::json
