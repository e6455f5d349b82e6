// The tokens in state.db: of their secrets only the SHA-256.
#pragma once

#include "core/auth/token_store.h"
#include "io/store/state_store.h"

namespace gpuyard::store {

// Times are milliseconds of the wall clock.
inline constexpr const char* kTokenTables = R"(
CREATE TABLE tokens(
  id TEXT PRIMARY KEY,
  digest TEXT NOT NULL,
  name TEXT NOT NULL,
  uid INTEGER,
  scope TEXT NOT NULL,
  gpus TEXT NOT NULL,
  made_ms INTEGER NOT NULL,
  made_by TEXT NOT NULL,
  expires_ms INTEGER,
  last_used_ms INTEGER,
  last_from TEXT NOT NULL,
  in_clear_ms INTEGER,
  revoked_ms INTEGER,
  revoked_by TEXT NOT NULL) WITHOUT ROWID;
)";

Result<std::vector<auth::Token>> load_tokens(Database&);
Result<void> save_tokens(Database&, const auth::TokenTransaction&);

// Thread: io.
class TokenDb final : public auth::TokenStorage {
 public:
  // The store outlives this.
  explicit TokenDb(StateStore& store) : store_(store) {}

  bool load(std::function<void(Result<std::vector<auth::Token>>)> on_done) override;
  bool save(auth::TokenTransaction, std::function<void(const Result<void>&)> on_done) override;

 private:
  StateStore& store_;
};

}  // namespace gpuyard::store
