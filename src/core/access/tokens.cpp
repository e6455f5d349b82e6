#include "access/tokens.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace gpuyard::access {
namespace {

constexpr Duration kLoadAgain = std::chrono::seconds(5);

Error no_room_on_disk() {
  return {Errc::busy, "too much waits for the disk already; ask again"};
}

}  // namespace

Tokens::~Tokens() {
  if (!used_.empty()) keep_use();
}

void Tokens::start() {
  try_load();
}

void Tokens::try_load() {
  const auto again = [this] { again_ = loop_.call_after(kLoadAgain, [this] { try_load(); }); };
  const bool asked = archive_.load(here_.guard([this, again](Result<std::vector<Token>> all) {
    if (!all) {
      log::error("tokens are refused until they can be read: {}", all.error().message);
      return again();
    }
    for (Token& token : *all) tokens_.emplace(token.id, std::move(token));
    loaded_ = true;
  }));
  if (!asked) again();
}

Result<void> Tokens::check_room(const TokenWish& wish) const {
  if (!loaded_) return Error{Errc::unavailable, "the tokens are still being read; ask again"};
  const WallTime now = loop_.wall();
  std::size_t good = 0;
  std::size_t own = 0;
  for (const auto& [id, token] : tokens_) {
    if (!token.live(now)) continue;
    ++good;
    if (token.uid != wish.uid) continue;
    ++own;
    if (token.name == wish.name) {
      return Error{Errc::conflict,
                   fmt::format("there is a token \"{}\" already, {}; give this one another name, "
                               "or revoke that one: `gpuyard token revoke {}`",
                               wish.name, token.id, token.id)};
    }
  }
  if (!wish.by_admin && own >= kMostOfOne) {
    return Error{Errc::busy, fmt::format("you have {} tokens, the most that one may have; revoke "
                                         "those that nobody uses: `gpuyard token list`",
                                         own)};
  }
  if (good >= (wish.by_admin ? kMost : kMost - kKeptForAdmins)) {
    return Error{Errc::busy, fmt::format("there are {} tokens on this machine, the most there may "
                                         "be; an administrator can revoke some",
                                         good)};
  }
  return {};
}

// What is over is listed for some time, so that people see why a token of theirs is refused.
void Tokens::forget_oldest_ended(TokenChanges& changes) {
  const WallTime now = loop_.wall();
  std::vector<const Token*> ended;
  for (const auto& [id, token] : tokens_) {
    if (!token.live(now)) ended.push_back(&token);
  }
  if (ended.size() <= kMostEnded) return;
  std::ranges::sort(ended, {}, [](const Token* token) { return token->made; });
  ended.resize(ended.size() - kMostEnded);
  for (const Token* token : ended) changes.forget.push_back(token->id);
  for (const std::string& id : changes.forget) tokens_.erase(id);
}

void Tokens::make(TokenWish wish, MadeOne made) {
  const auto told = std::make_shared<const MadeOne>(std::move(made));
  const auto refuse = [this, told](Error why) {
    loop_.post([told, why = std::move(why)] { (*told)(why); });
  };
  if (auto room = check_room(wish); !room) return refuse(std::move(room).error());
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
  TokenChanges changes{.put = {token}, .forget = {}};
  forget_oldest_ended(changes);
  const auto saved =
      here_.guard([this, token, told, text = text->text()](const Result<void>& kept) {
        if (!kept) {
          tokens_.erase(token.id);
          return (*told)(kept.error());
        }
        (*told)(Made{token, text});
      });
  // Counted from now on, so that no one makes more than the limit while the disk is slow.
  tokens_.emplace(token.id, token);
  if (archive_.save(std::move(changes), saved)) return;
  tokens_.erase(token.id);
  refuse(no_room_on_disk());
}

void Tokens::revoke(const std::vector<std::string>& ids, const std::string& by, Done done) {
  TokenChanges changes;
  for (const std::string& id : ids) {
    const auto found = tokens_.find(id);
    if (found == tokens_.end() || found->second.revoked) continue;
    found->second.revoked = loop_.wall();
    found->second.revoked_by = by;
    changes.put.push_back(found->second);
  }
  tell_ended();
  forget_oldest_ended(changes);
  const auto saved = [done = std::move(done)](const Result<void>& kept) {
    if (kept) return done(kept);
    done(Error{kept.error().code,
               fmt::format("refused from now on, but that is not kept, and would be forgotten when "
                           "gpuyard starts again: {}",
                           kept.error().message)});
  };
  if (!archive_.save(std::move(changes), here_.guard(saved))) {
    loop_.post([saved] { saved(no_room_on_disk()); });
  }
}

Result<const Token*> Tokens::check(std::string_view text) const {
  const auto presented = TokenText::parse(text);
  if (!presented) return Error{Errc::denied, presented.error().message};
  if (!loaded_) return Error{Errc::unavailable, "the tokens are still being read; ask again"};
  // A token that does not exist takes as long as one whose secret is wrong.
  static const Token nobody{.id = {}, .digest = std::string(64, '0'), .name = {}, .made_by = {}};
  const auto found = tokens_.find(presented->id);
  const Token& token = found == tokens_.end() ? nobody : found->second;
  if (!same_digest(presented->digest(), token.digest)) {
    return Error{Errc::denied,
                 "no such token is known here; it may be another machine's, or have ended long "
                 "ago. `gpuyard token list` shows yours, on the machine itself"};
  }
  if (token.revoked) {
    return Error{Errc::denied, fmt::format("the token {} was revoked at {} by {}", token.id,
                                           to_rfc3339(*token.revoked), token.revoked_by)};
  }
  if (!token.live(loop_.wall())) {
    return Error{Errc::denied,
                 fmt::format("the token {} expired at {}; make a new one with `gpuyard token "
                             "create`, on the machine itself",
                             token.id, to_rfc3339(*token.expires))};
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
  TokenChanges changes{.put = {}, .forget = {}, .soon = true};
  for (const std::string& id : std::exchange(used_, {})) {
    if (const Token* token = find(id)) changes.put.push_back(*token);
  }
  // What cannot be kept now is told at the next use.
  archive_.save(std::move(changes), [](const Result<void>&) {});
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

std::optional<WallTime> Tokens::first_end(Duration life) const {
  std::optional<WallTime> first;
  for (const auto& [id, token] : tokens_) {
    if (!token.live(loop_.wall()) || !token.expires || *token.expires - token.made < life) continue;
    first = std::min(first.value_or(*token.expires), *token.expires);
  }
  return first;
}

Subscription Tokens::on_end(const std::string& id, std::function<void()> ended) {
  const std::uint64_t number = ++next_watcher_;
  watchers_.emplace(number, std::pair(id, std::move(ended)));
  if (!look_) look_ = loop_.call_after(kLook, [this] { look(); });
  return Subscription(here_.guard([this, number] { watchers_.erase(number); }));
}

void Tokens::look() {
  look_.reset();
  tell_ended();
  if (!watchers_.empty()) look_ = loop_.call_after(kLook, [this] { look(); });
}

void Tokens::tell_ended() {
  const WallTime now = loop_.wall();
  std::vector<std::function<void()>> told;
  std::erase_if(watchers_, [&](auto& one) {
    const Token* token = find(one.second.first);
    if (token != nullptr && token->live(now)) return false;
    told.push_back(std::move(one.second.second));
    return true;
  });
  for (const auto& ended : told) ended();
}

}  // namespace gpuyard::access
