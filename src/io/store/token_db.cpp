#include "io/store/token_db.h"

#include <memory>
#include <utility>

#include "io/store/sqlite.h"
#include "io/store/unreadable.h"

namespace gpuyard::store {
namespace {

constexpr auto kToken = [](auto& row, auto& token) {
  row(token.id, token.digest, token.name, token.uid, token.scope, token.gpus, token.made,
      token.made_by, token.expires, token.last_used, token.last_from, token.in_clear, token.revoked,
      token.revoked_by);
};

}  // namespace

Result<std::vector<access::Token>> load_tokens(Database& database) {
  std::vector<access::Token> tokens;
  // The rights of an unreadable token are unknown, so it is no longer accepted.
  const Rows all{"tokens", "id",
                 "id, digest, name, uid, scope, gpus, made_ms, made_by, expires_ms, last_used_ms, "
                 "last_from, in_clear_ms, revoked_ms, revoked_by"};
  auto read = read_sound(tokens, database, all, kToken);
  if (!read) return std::move(read).error();
  return tokens;
}

Result<void> save_tokens(Database& database, const access::TokenTransaction& changes) {
  auto put =
      run_for_each(database, "INSERT OR REPLACE INTO tokens VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                   changes.put, kToken);
  if (!put) return put;
  return run_for_each(database, "DELETE FROM tokens WHERE id=?", changes.forget, kItself);
}

bool TokenDb::load(std::function<void(Result<std::vector<access::Token>>)> loaded) {
  return store_.ask<std::vector<access::Token>>(&load_tokens, std::move(loaded));
}

bool TokenDb::save(access::TokenTransaction changes,
                   std::function<void(const Result<void>&)> saved) {
  const auto durability = changes.soon ? Durability::normal : Durability::full;
  const auto shared = std::make_shared<const access::TokenTransaction>(std::move(changes));
  StateDb::Work work;
  if (!shared->put.empty() || !shared->forget.empty()) {
    work = [shared](Database& database) { return save_tokens(database, *shared); };
  }
  return store_.run(shared->requester, std::move(work), std::move(saved), durability);
}

}  // namespace gpuyard::store
