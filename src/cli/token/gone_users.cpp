#include "cli/token/gone_users.h"

#include <cstdint>
#include <map>

#include <fmt/format.h>

#include "faces/client/daemon_client.h"
#include "faces/protocol/routes.h"

namespace gpuyard::cli {

std::vector<std::string> gone_user_warnings(const protocol::Tokens& tokens) {
  std::map<std::uint32_t, int> good_of;
  for (const protocol::Token& token : tokens.tokens) {
    if (token.uid && token.user_gone.value_or(false) && token.state == "good") {
      ++good_of[*token.uid];
    }
  }
  std::vector<std::string> all;
  for (const auto& [uid, count] : good_of) {
    all.push_back(fmt::format(
        "UID {0} has {1} valid token{2} but no user: a new user with this UID would own "
        "the token{2}. Revoke with `gpuyard token revoke --user {0}`.",
        uid, count, count == 1 ? "" : "s"));
  }
  return all;
}

std::vector<std::string> fetch_gone_user_warnings(const http::Endpoint& daemon) {
  using Kind = http::Endpoint::Kind;
  if (daemon.kind != Kind::unix_socket && daemon.kind != Kind::tunnel) return {};
  const auto tokens = client::call(daemon, protocol::kTokens);
  return tokens ? gone_user_warnings(*tokens) : std::vector<std::string>();
}

}  // namespace gpuyard::cli
