#include "core/auth/token_store.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace gpuyard::access {
namespace {

constexpr Duration kLoadAgain = std::chrono::seconds(5);

Error no_room_on_disk() {
  return {Errc::busy, "the disk queue is full; try again"};
}

}  // namespace

Tokens::~Tokens() {
  if (!used_.empty()) keep_use();
  if (!owed_.empty()) keep_owed();
}

void Tokens::start() {
  try_load();
}

void Tokens::try_load() {
  const auto again = [this] { again_ = loop_.call_after(kLoadAgain, [this] { try_load(); }); };
  const bool asked = archive_.load(here_.guard([this, again](Result<std::vector<Token>> all) {
    if (!all) {
      log::error("tokens are refused until the stored tokens can be read: {}", all.error().text());
      return again();
    }
    for (Token& token : *all) tokens_.emplace(token.id, std::move(token));
    loaded_ = true;
    look_at_clock();
  }));
  if (!asked) again();
}

std::optional<Duration> Tokens::count_change(const Requester& requester) {
  if (requester.privileged) return std::nullopt;
  return changes_of_.take(requester.party, loop_.now());
}

Result<void> Tokens::check_wish(const TokenWish& wish) const {
  if (!loaded_) return Error{Errc::unavailable, "tokens are still being loaded; try again"};
  if (wish.lasts && (*wish.lasts < kShortestLife || *wish.lasts > kLongestLife)) {
    return Error{Errc::invalid, fmt::format("a token is valid for {} to {} seconds",
                                            kShortestLife.count(), kLongestLife.count())};
  }
  const WallTime now = loop_.wall();
  for (const auto& [id, token] : tokens_) {
    if (token.uid != wish.uid || token.name != wish.name || !token.live(now)) continue;
    return Error{Errc::conflict,
                 fmt::format("a token named \"{}\" already exists, {}", wish.name, token.id), "",
                 fmt::format("gpuyard token revoke {}  # or choose another name", token.id)};
  }
  return check_room(wish);
}

Result<void> Tokens::check_room(const TokenWish& wish) const {
  const WallTime now = loop_.wall();
  std::size_t good = 0;
  std::size_t own = 0;
  std::map<std::optional<std::uint32_t>, std::size_t> staying;
  for (const auto& [id, token] : tokens_) {
    const bool live = token.live(now);
    if (!live && (may_forget(token) || ++staying[token.uid] <= kMostOfOne)) continue;
    ++good;
    if (token.uid == wish.uid) ++own;
  }
  if (!wish.by_admin && own >= kMostOfOne) {
    return Error{Errc::busy,
                 fmt::format("you have {} tokens, the maximum per user; revoke unused ones", own),
                 "", "gpuyard token list"};
  }
  if (good >= (wish.by_admin ? kMost : kMost - kKeptForAdmins)) {
    return Error{
        Errc::busy,
        fmt::format("this machine has {} tokens, the maximum; an administrator can revoke some",
                    good)};
  }
  return {};
}

bool Tokens::may_forget(const Token& token) const {
  // It may still be valid on the disk.
  if (owed_.contains(token.id)) return false;
  if (token.revoked) return true;
  const auto since = expired_since_.find(token.id);
  return since != expired_since_.end() && loop_.now() - since->second >= kSurelyOver;
}

// Ended tokens stay listed for some time, so that users see why a token is refused. The oldest
// tokens of the user with the most are dropped first.
void Tokens::forget_oldest_ended(TokenTransaction& changes) {
  const WallTime now = loop_.wall();
  std::size_t ended = 0;
  std::map<std::optional<std::uint32_t>, std::vector<const Token*>> of_user;
  for (const auto& [id, token] : tokens_) {
    if (token.live(now)) continue;
    ++ended;
    if (may_forget(token)) of_user[token.uid].push_back(&token);
  }
  const auto made = [](const Token* token) { return token->made; };
  for (auto& [uid, own] : of_user) std::ranges::sort(own, std::ranges::greater(), made);
  const auto turn = [&](const auto& one) {
    return std::pair(one.second.size(), -to_unix_ms(made(one.second.back())));
  };
  for (; ended > kMostEnded && !of_user.empty(); --ended) {
    const auto most = std::ranges::max_element(of_user, {}, turn);
    changes.forget.push_back(most->second.back()->id);
    most->second.pop_back();
    if (most->second.empty()) of_user.erase(most);
  }
}

void Tokens::look_at_clock() {
  const WallTime now = loop_.wall();
  for (const auto& [id, token] : tokens_) {
    if (token.expires && *token.expires <= now) {
      expired_since_.try_emplace(id, loop_.now());
    } else {
      expired_since_.erase(id);
    }
  }
  clock_ = loop_.call_after(kLookAtClock, [this] { look_at_clock(); });
}

// Saved revocations are no longer pending. The disk works, so the others are saved as well.
void Tokens::save(TokenTransaction changes, Done done) {
  std::vector<std::string> revoked;
  for (const Token& token : changes.put) {
    if (token.revoked) revoked.push_back(token.id);
  }
  const auto saved = here_.guard([this, revoked = std::move(revoked), forgotten = changes.forget,
                                  done = std::move(done)](const Result<void>& kept) {
    if (kept) {
      for (const std::string& id : revoked) owed_.erase(id);
      for (const std::string& id : forgotten) {
        tokens_.erase(id);
        expired_since_.erase(id);
      }
    }
    if (owed_.empty()) {
      keep_again_.reset();
    } else if (!kept && !keep_again_) {
      keep_again_ = loop_.call_after(kKeepAgain, [this] { keep_owed(); });
    } else if (kept && keep_again_) {
      keep_owed();
    }
    done(kept);
  });
  if (!archive_.save(std::move(changes), saved)) {
    loop_.post([saved] { saved(Result<void>(no_room_on_disk())); });
  }
}

void Tokens::keep_owed() {
  keep_again_.reset();
  TokenTransaction changes;
  for (const std::string& id : owed_) {
    if (const Token* token = find(id)) changes.put.push_back(*token);
  }
  save(std::move(changes), [](const Result<void>&) {});
}

void Tokens::make(TokenWish wish, MadeOne made) {
  const auto told = std::make_shared<const MadeOne>(std::move(made));
  const auto refuse = [this, told](Error why) {
    loop_.post([told, why = std::move(why)] { (*told)(why); });
  };
  look_at_clock();
  if (auto good = check_wish(wish); !good) return refuse(std::move(good).error());
  auto text = TokenText::draw();
  if (!text) return refuse(std::move(text).error());
  const WallTime now = loop_.wall();
  Token token{.id = text->id,
              .digest = text->digest(),
              .name = std::move(wish.name),
              .uid = wish.uid,
              .scope = wish.scope,
              .gpus = std::move(wish.gpus),
              .made = now,
              .made_by = std::move(wish.made_by)};
  if (wish.lasts) {
    token.expires = now + std::chrono::duration_cast<std::chrono::milliseconds>(*wish.lasts);
  }
  if (tokens_.contains(token.id)) return refuse(no_room_on_disk());  // one in 10^9 tries
  TokenTransaction changes{.put = {token}, .forget = {}};
  changes.requester = {std::move(wish.party), wish.by_admin};
  forget_oldest_ended(changes);
  // Counted from now on, so that no one makes more than the limit while the disk is slow.
  tokens_.emplace(token.id, token);
  save(std::move(changes), [this, token, told, text = text->text()](const Result<void>& kept) {
    if (kept) return (*told)(Made{token, text});
    tokens_.erase(token.id);
    owed_.erase(token.id);
    (*told)(kept.error());
  });
}

std::vector<std::string> Tokens::revoke(const std::vector<std::string>& ids, const std::string& by,
                                        Done done, Requester requester) {
  std::vector<std::string> changed;
  TokenTransaction changes;
  for (const std::string& id : ids) {
    const auto found = tokens_.find(id);
    if (found == tokens_.end()) continue;
    Token& token = found->second;
    if (!token.revoked) {
      token.revoked = loop_.wall();
      token.revoked_by = by;
      owed_.insert(id);
      changed.push_back(id);
    }
    if (owed_.contains(id)) changes.put.push_back(token);
  }
  ends_.tell_ended();
  if (changes.put.empty()) {
    loop_.post([done = std::move(done)] { done({}); });
    return changed;
  }
  changes.requester = std::move(requester);
  forget_oldest_ended(changes);
  save(std::move(changes), [done = std::move(done)](const Result<void>& kept) {
    if (kept) return done(kept);
    done(Error{kept.error().code, fmt::format("revoked, but not stored yet: {}; gpuyard retries, "
                                              "and a restart before then undoes the revocation",
                                              kept.error().text())});
  });
  return changed;
}

Result<const Token*> Tokens::check(std::string_view text) const {
  const auto presented = TokenText::parse(text);
  if (!presented) return Error{Errc::denied, presented.error().text()};
  if (!loaded_) return Error{Errc::unavailable, "tokens are still being loaded; try again"};
  // A token that does not exist takes as long as one whose secret is wrong.
  static const Token nobody{.id = {}, .digest = std::string(64, '0'), .name = {}, .made_by = {}};
  const auto found = tokens_.find(presented->id);
  const Token& token = found == tokens_.end() ? nobody : found->second;
  if (!same_digest(presented->digest(), token.digest)) {
    return Error{Errc::denied, "unknown token",
                 "it may belong to another machine, or have expired long ago",
                 "gpuyard token list  # on the machine itself"};
  }
  if (token.revoked) {
    return Error{Errc::denied, fmt::format("token {} was revoked at {} by {}", token.id,
                                           to_rfc3339(*token.revoked), token.revoked_by)};
  }
  if (!token.live(loop_.wall())) {
    return Error{Errc::denied,
                 fmt::format("token {} expired at {}", token.id, to_rfc3339(*token.expires)), "",
                 "gpuyard token create NAME  # on the machine itself"};
  }
  return &token;
}

void Tokens::used(const std::string& id, const std::string& from, bool in_clear) {
  const auto found = tokens_.find(id);
  if (found == tokens_.end()) return;
  found->second.last_used = loop_.wall();
  found->second.last_from = from;
  if (in_clear) found->second.in_clear = loop_.wall();
  used_.insert(id);
  if (!keep_) keep_ = loop_.call_after(kUseKept, [this] { keep_use(); });
}

void Tokens::keep_use() {
  keep_.reset();
  TokenTransaction changes{.put = {}, .forget = {}, .soon = true};
  for (const std::string& id : used_) {
    const Token* const token = find(id);
    // An unsaved revocation is retried separately and at once, and includes the use.
    if (token != nullptr && !owed_.contains(id)) changes.put.push_back(*token);
  }
  auto ids = std::exchange(used_, {});
  if (changes.put.empty()) return;
  const auto saved = here_.guard([this, ids = std::move(ids)](const Result<void>& kept) {
    if (kept) return;
    used_.insert(ids.begin(), ids.end());
    if (!keep_) keep_ = loop_.call_after(kUseKept, [this] { keep_use(); });
  });
  if (!archive_.save(std::move(changes), saved)) saved(Result<void>(no_room_on_disk()));
}

const Token* Tokens::find(const std::string& id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second;
}

std::vector<Token> Tokens::all() const {
  std::vector<Token> tokens;
  for (const auto& [id, token] : tokens_) tokens.push_back(token);
  // Those of one millisecond by their ids.
  std::ranges::sort(tokens, {}, [](const Token& one) { return std::pair(one.made, one.id); });
  return tokens;
}

std::vector<std::uint32_t> Tokens::users() const {
  const WallTime now = loop_.wall();
  std::set<std::uint32_t> users;
  for (const auto& [id, token] : tokens_) {
    if (token.uid && token.live(now)) users.insert(*token.uid);
  }
  return {users.begin(), users.end()};
}

std::optional<WallTime> Tokens::first_end(Duration life) const {
  std::optional<WallTime> first;
  for (const auto& [id, token] : tokens_) {
    if (!token.live(loop_.wall()) || !token.expires || *token.expires - token.made < life) continue;
    first = std::min(first.value_or(*token.expires), *token.expires);
  }
  return first;
}

}  // namespace gpuyard::access
