// Tokens kept in memory.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/manual_loop_for_tests.h"
#include "core/auth/token_store.h"

namespace gpuyard::auth {

class FakeTokenStorage final : public TokenStorage {
 public:
  explicit FakeTokenStorage(ManualLoop& loop) : loop_(loop) {}

  bool load(std::function<void(Result<std::vector<Token>>)> loaded) override {
    loop_.post([this, loaded = std::move(loaded)] {
      if (broken) return loaded(*broken);
      std::vector<Token> all;
      for (const auto& [id, token] : kept) all.push_back(token);
      loaded(std::move(all));
    });
    return true;
  }
  bool save(TokenTransaction changes, std::function<void(const Result<void>&)> saved) override {
    if (full || (!changes.requester.privileged && changes.requester.quota_group == full_for))
      return false;
    ++saves;
    requesters.push_back(changes.requester);
    loop_.post([this, changes = std::move(changes), saved = std::move(saved)] {
      if (broken) return saved(*broken);
      for (const Token& token : changes.tokens) kept[token.id] = token;
      for (const std::string& id : changes.removed_ids) kept.erase(id);
      saved({});
    });
    return true;
  }

  std::map<std::string, Token> kept;
  std::optional<Error> broken;
  bool full = false;
  std::optional<std::string> full_for = {};  // the quota group whose share of the queue is full
  int saves = 0;
  std::vector<Requester> requesters;  // of the saves

 private:
  ManualLoop& loop_;
};

}  // namespace gpuyard::auth
