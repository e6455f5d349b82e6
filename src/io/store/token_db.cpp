#include "io/store/token_db.h"

#include <memory>
#include <utility>

#include "base/try.h"
#include "io/store/sqlite.h"
#include "io/store/sqlite_rows.h"
#include "io/store/unreadable.h"

namespace gpuyard::store {
namespace {

constexpr auto kToken = [](auto& row, auto& token) {
  row(token.id, token.digest, token.name, token.uid, token.scope, token.gpus, token.made,
      token.made_by, token.expires, token.last_used, token.last_from, token.in_clear, token.revoked,
      token.revoked_by);
};

}  // namespace

Result<std::vector<auth::Token>> load_tokens(Database& database) {
  std::vector<auth::Token> tokens;
  // The rights of an unreadable token are unknown, so it is no longer accepted.
  const RowSelection all{
      "tokens", "id",
      "id, digest, name, uid, scope, gpus, made_ms, made_by, expires_ms, last_used_ms, "
      "last_from, in_clear_ms, revoked_ms, revoked_by"};
  GPUYARD_TRY(read_rows(tokens, database, all, kToken));
  return tokens;
}

Result<void> save_tokens(Database& database, const auth::TokenTransaction& transaction) {
  auto put =
      run_for_each(database, "INSERT OR REPLACE INTO tokens VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                   transaction.tokens, kToken);
  if (!put) return put;
  return run_for_each(database, "DELETE FROM tokens WHERE id=?", transaction.removed_ids,
                      kSingleColumn);
}

bool TokenDb::load(std::function<void(Result<std::vector<auth::Token>>)> on_done) {
  return store_.load<std::vector<auth::Token>>(&load_tokens, std::move(on_done));
}

bool TokenDb::save(auth::TokenTransaction transaction,
                   std::function<void(const Result<void>&)> on_done) {
  const auto durability = transaction.deferred_sync ? Durability::normal : Durability::full;
  const auto shared = std::make_shared<const auth::TokenTransaction>(std::move(transaction));
  StateDb::Work work;
  if (!shared->tokens.empty() || !shared->removed_ids.empty()) {
    work = [shared](Database& database) { return save_tokens(database, *shared); };
  }
  return store_.run(shared->requester, std::move(work), std::move(on_done), durability);
}

}  // namespace gpuyard::store
