#include "core/auth/token_store.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace gpuyard::auth {
namespace {

constexpr Duration kLoadRetryDelay = std::chrono::seconds(5);

Error disk_queue_full_error() {
  return {Errc::busy, "the disk queue is full; try again"};
}

}  // namespace

TokenStore::~TokenStore() {
  if (!unsaved_uses_.empty()) save_uses();
  if (!unsaved_revocations_.empty()) save_revocations();
}

void TokenStore::start() {
  try_load();
}

void TokenStore::try_load() {
  const auto retry = [this] {
    load_timer_ = loop_.call_after(kLoadRetryDelay, [this] { try_load(); });
  };
  const bool submitted =
      storage_.load(lifetime_.guard([this, retry](Result<std::vector<Token>> all) {
        if (!all) {
          log::error("tokens are refused until the stored tokens can be read: {}",
                     all.error().text());
          return retry();
        }
        for (Token& token : *all) tokens_.emplace(token.id, std::move(token));
        loaded_ = true;
        update_expired_since();
      }));
  if (!submitted) retry();
}

std::optional<Duration> TokenStore::count_change(const Requester& requester) {
  if (requester.privileged) return std::nullopt;
  return change_limiter_.take(requester.quota_group, loop_.now());
}

Result<void> TokenStore::check_request(const TokenRequest& request) const {
  if (!loaded_) return Error{Errc::unavailable, "tokens are still being loaded; try again"};
  if (request.lifetime &&
      (*request.lifetime < kMinTokenLifetime || *request.lifetime > kMaxTokenLifetime)) {
    return Error{Errc::invalid, fmt::format("a token is valid for {} to {} seconds",
                                            kMinTokenLifetime.count(), kMaxTokenLifetime.count())};
  }
  const WallTime now = loop_.wall();
  for (const auto& [id, token] : tokens_) {
    if (token.uid != request.uid || token.name != request.name || !token.is_valid(now)) continue;
    return Error{Errc::conflict,
                 fmt::format("a token named \"{}\" already exists, {}", request.name, token.id), "",
                 fmt::format("gpuyard token revoke {}  # or choose another name", token.id)};
  }
  return check_quota(request);
}

Result<void> TokenStore::check_quota(const TokenRequest& request) const {
  const WallTime now = loop_.wall();
  std::size_t good = 0;
  std::size_t own = 0;
  std::map<std::optional<std::uint32_t>, std::size_t> staying;
  for (const auto& [id, token] : tokens_) {
    const bool live = token.is_valid(now);
    if (!live && (can_evict(token) || ++staying[token.uid] <= kMaxTokensPerUser)) continue;
    ++good;
    if (token.uid == request.uid) ++own;
  }
  if (!request.by_admin && own >= kMaxTokensPerUser) {
    return Error{Errc::busy,
                 fmt::format("you have {} tokens, the maximum per user; revoke unused ones", own),
                 "", "gpuyard token list"};
  }
  if (good >= (request.by_admin ? kMaxTokens : kMaxTokens - kReservedForAdmins)) {
    return Error{
        Errc::busy,
        fmt::format("this machine has {} tokens, the maximum; an administrator can revoke some",
                    good)};
  }
  return {};
}

bool TokenStore::can_evict(const Token& token) const {
  // It may still be valid on the disk.
  if (unsaved_revocations_.contains(token.id)) return false;
  if (token.revoked) return true;
  const auto since = expired_since_.find(token.id);
  return since != expired_since_.end() && loop_.now() - since->second >= kExpiredRetention;
}

// Ended tokens stay listed for some time, so that users see why a token is refused. The oldest
// tokens of the user with the most are dropped first.
void TokenStore::evict_oldest_ended(TokenTransaction& changes) {
  const WallTime now = loop_.wall();
  std::size_t ended = 0;
  std::map<std::optional<std::uint32_t>, std::vector<const Token*>> of_user;
  for (const auto& [id, token] : tokens_) {
    if (token.is_valid(now)) continue;
    ++ended;
    if (can_evict(token)) of_user[token.uid].push_back(&token);
  }
  const auto made = [](const Token* token) { return token->made; };
  for (auto& [uid, own] : of_user) std::ranges::sort(own, std::ranges::greater(), made);
  const auto eviction_order = [&](const auto& one) {
    return std::pair(one.second.size(), -to_unix_ms(made(one.second.back())));
  };
  for (; ended > kMaxEndedTokens && !of_user.empty(); --ended) {
    const auto most = std::ranges::max_element(of_user, {}, eviction_order);
    changes.removed_ids.push_back(most->second.back()->id);
    most->second.pop_back();
    if (most->second.empty()) of_user.erase(most);
  }
}

void TokenStore::update_expired_since() {
  const WallTime now = loop_.wall();
  for (const auto& [id, token] : tokens_) {
    if (token.expires && *token.expires <= now) {
      expired_since_.try_emplace(id, loop_.now());
    } else {
      expired_since_.erase(id);
    }
  }
  expiry_timer_ = loop_.call_after(kExpiryCheckInterval, [this] { update_expired_since(); });
}

// Saved revocations are no longer pending. The disk works, so the others are saved as well.
void TokenStore::save(TokenTransaction changes, OnDone on_done) {
  std::vector<std::string> revoked;
  for (const Token& token : changes.tokens) {
    if (token.revoked) revoked.push_back(token.id);
  }
  const auto on_saved = lifetime_.guard([this, revoked = std::move(revoked),
                                         removed_ids = changes.removed_ids,
                                         on_done = std::move(on_done)](const Result<void>& result) {
    if (result) {
      for (const std::string& id : revoked) unsaved_revocations_.erase(id);
      for (const std::string& id : removed_ids) {
        tokens_.erase(id);
        expired_since_.erase(id);
      }
    }
    if (unsaved_revocations_.empty()) {
      revocation_save_timer_.reset();
    } else if (!result && !revocation_save_timer_) {
      revocation_save_timer_ = loop_.call_after(kSaveRetryDelay, [this] { save_revocations(); });
    } else if (result && revocation_save_timer_) {
      save_revocations();
    }
    on_done(result);
  });
  if (!storage_.save(std::move(changes), on_saved)) {
    loop_.post([on_saved] { on_saved(Result<void>(disk_queue_full_error())); });
  }
}

void TokenStore::save_revocations() {
  revocation_save_timer_.reset();
  TokenTransaction changes;
  for (const std::string& id : unsaved_revocations_) {
    if (const Token* token = find(id)) changes.tokens.push_back(*token);
  }
  save(std::move(changes), [](const Result<void>&) {});
}

void TokenStore::create(TokenRequest request, OnCreated on_created) {
  const auto callback = std::make_shared<const OnCreated>(std::move(on_created));
  const auto refuse = [this, callback](Error why) {
    loop_.post([callback, why = std::move(why)] { (*callback)(why); });
  };
  update_expired_since();
  if (auto good = check_request(request); !good) return refuse(std::move(good).error());
  auto text = TokenText::draw();
  if (!text) return refuse(std::move(text).error());
  const WallTime now = loop_.wall();
  Token token{.id = text->id,
              .digest = text->digest(),
              .name = std::move(request.name),
              .uid = request.uid,
              .scope = request.scope,
              .gpus = std::move(request.gpus),
              .made = now,
              .made_by = std::move(request.made_by)};
  if (request.lifetime) {
    token.expires = now + std::chrono::duration_cast<std::chrono::milliseconds>(*request.lifetime);
  }
  if (tokens_.contains(token.id)) return refuse(disk_queue_full_error());  // one in 10^9 tries
  TokenTransaction changes{.tokens = {token}, .removed_ids = {}};
  changes.requester = {std::move(request.quota_group), request.by_admin};
  evict_oldest_ended(changes);
  // Counted from now on, so that no one makes more than the limit while the disk is slow.
  tokens_.emplace(token.id, token);
  save(std::move(changes),
       [this, token, callback, text = text->text()](const Result<void>& result) {
         if (result) return (*callback)(CreatedToken{token, text});
         tokens_.erase(token.id);
         unsaved_revocations_.erase(token.id);
         (*callback)(result.error());
       });
}

std::vector<std::string> TokenStore::revoke(const std::vector<std::string>& ids,
                                            const std::string& by, OnDone on_done,
                                            Requester requester) {
  std::vector<std::string> changed;
  TokenTransaction changes;
  for (const std::string& id : ids) {
    const auto found = tokens_.find(id);
    if (found == tokens_.end()) continue;
    Token& token = found->second;
    if (!token.revoked) {
      token.revoked = loop_.wall();
      token.revoked_by = by;
      unsaved_revocations_.insert(id);
      changed.push_back(id);
    }
    if (unsaved_revocations_.contains(id)) changes.tokens.push_back(token);
  }
  end_watch_.notify_ended();
  if (changes.tokens.empty()) {
    loop_.post([on_done = std::move(on_done)] { on_done({}); });
    return changed;
  }
  changes.requester = std::move(requester);
  evict_oldest_ended(changes);
  save(std::move(changes), [on_done = std::move(on_done)](const Result<void>& result) {
    if (result) return on_done(result);
    on_done(
        Error{result.error().code, fmt::format("revoked, but not stored yet: {}; gpuyard retries, "
                                               "and a restart before then undoes the revocation",
                                               result.error().text())});
  });
  return changed;
}

Result<const Token*> TokenStore::authenticate(std::string_view text) const {
  const auto presented = TokenText::parse(text);
  if (!presented) return Error{Errc::denied, presented.error().text()};
  if (!loaded_) return Error{Errc::unavailable, "tokens are still being loaded; try again"};
  // A token that does not exist takes as long as one whose secret is wrong.
  static const Token unknown_token{
      .id = {}, .digest = std::string(64, '0'), .name = {}, .made_by = {}};
  const auto found = tokens_.find(presented->id);
  const Token& token = found == tokens_.end() ? unknown_token : found->second;
  if (!is_same_digest(presented->digest(), token.digest)) {
    return Error{Errc::denied, "unknown token",
                 "it may belong to another machine, or have expired long ago",
                 "gpuyard token list  # on the machine itself"};
  }
  if (token.revoked) {
    return Error{Errc::denied, fmt::format("token {} was revoked at {} by {}", token.id,
                                           to_rfc3339(*token.revoked), token.revoked_by)};
  }
  if (!token.is_valid(loop_.wall())) {
    return Error{Errc::denied,
                 fmt::format("token {} expired at {}", token.id, to_rfc3339(*token.expires)), "",
                 "gpuyard token create NAME  # on the machine itself"};
  }
  return &token;
}

void TokenStore::record_use(const std::string& id, const std::string& from, bool in_clear) {
  const auto found = tokens_.find(id);
  if (found == tokens_.end()) return;
  found->second.last_used = loop_.wall();
  found->second.last_from = from;
  if (in_clear) found->second.in_clear = loop_.wall();
  unsaved_uses_.insert(id);
  if (!use_save_timer_) use_save_timer_ = loop_.call_after(kUseSaveDelay, [this] { save_uses(); });
}

void TokenStore::save_uses() {
  use_save_timer_.reset();
  TokenTransaction changes{.tokens = {}, .removed_ids = {}, .deferred_sync = true};
  for (const std::string& id : unsaved_uses_) {
    const Token* const token = find(id);
    // An unsaved revocation is retried separately and at once, and includes the use.
    if (token != nullptr && !unsaved_revocations_.contains(id)) changes.tokens.push_back(*token);
  }
  auto ids = std::exchange(unsaved_uses_, {});
  if (changes.tokens.empty()) return;
  const auto on_saved = lifetime_.guard([this, ids = std::move(ids)](const Result<void>& result) {
    if (result) return;
    unsaved_uses_.insert(ids.begin(), ids.end());
    if (!use_save_timer_)
      use_save_timer_ = loop_.call_after(kUseSaveDelay, [this] { save_uses(); });
  });
  if (!storage_.save(std::move(changes), on_saved)) on_saved(Result<void>(disk_queue_full_error()));
}

const Token* TokenStore::find(const std::string& id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second;
}

std::vector<Token> TokenStore::all() const {
  std::vector<Token> tokens;
  for (const auto& [id, token] : tokens_) tokens.push_back(token);
  // Tokens of one millisecond are in the order of their ids.
  std::ranges::sort(tokens, {}, [](const Token& one) { return std::pair(one.made, one.id); });
  return tokens;
}

std::vector<std::uint32_t> TokenStore::users() const {
  const WallTime now = loop_.wall();
  std::set<std::uint32_t> users;
  for (const auto& [id, token] : tokens_) {
    if (token.uid && token.is_valid(now)) users.insert(*token.uid);
  }
  return {users.begin(), users.end()};
}

std::optional<WallTime> TokenStore::next_expiry(Duration lifetime) const {
  std::optional<WallTime> first;
  for (const auto& [id, token] : tokens_) {
    if (!token.is_valid(loop_.wall()) || !token.expires || *token.expires - token.made < lifetime)
      continue;
    first = std::min(first.value_or(*token.expires), *token.expires);
  }
  return first;
}

}  // namespace gpuyard::auth
