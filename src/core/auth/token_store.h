// All tokens of this machine: who made which, which are good now, and whose streams end with one.
// Knows no HTTP and no disk. Lives on the io thread.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/end_watch.h"
#include "base/limits.h"
#include "base/loop.h"
#include "base/requester.h"
#include "base/result.h"
#include "base/token_bucket.h"
#include "core/auth/token.h"

namespace gpuyard::access {

// What is kept together: all of it or nothing.
struct TokenTransaction {
  std::vector<Token> put;           // each replaces the one of its id
  std::vector<std::string> forget;  // ids
  bool soon = false;                // a power cut may lose them: when tokens were last used
  Requester requester = Requester::daemon();
};

// Keeps the tokens. A call returns false, and does nothing, if too much waits already. A callback
// never runs inside the call it was given to.
class TokenStorage {
 public:
  virtual ~TokenStorage() = default;
  virtual bool load(std::function<void(Result<std::vector<Token>>)> loaded) = 0;
  virtual bool save(TokenTransaction, std::function<void(const Result<void>&)> saved) = 0;
};

// A request for a new token.
struct TokenWish {
  std::string name;
  std::optional<std::uint32_t> uid = {};  // empty: a service's
  Scope scope = Scope::read;
  std::vector<DeviceId> gpus = {};
  std::optional<Duration> lasts = {};  // empty: for ever
  std::string made_by;
  bool by_admin = false;
  std::string party = {};  // the requesting user: see Requester
};

class Tokens {
 public:
  static constexpr std::size_t kMost = 1024;     // that are good, of all users
  static constexpr std::size_t kMostOfOne = 64;  // of one user
  static constexpr std::size_t kKeptForAdmins = 128;
  // Ended tokens that stay listed. Those that cannot be forgotten yet count as valid beyond
  // kMostOfOne for each user.
  static constexpr std::size_t kMostEnded = 256;
  static constexpr std::size_t kLongestName = 64;
  static constexpr Duration kUseKept = std::chrono::minutes(1);
  // An unsaved revocation is retried after this time.
  static constexpr Duration kKeepAgain = std::chrono::seconds(5);
  // An expired token is forgotten only if every check of the clock found it expired for
  // kSurelyOver, so that a temporarily wrong clock deletes nothing.
  static constexpr Duration kSurelyOver = std::chrono::hours(24);
  static constexpr Duration kLookAtClock = std::chrono::hours(1);

  // The text of a token, which is told once and never again.
  struct Made {
    Token token;
    std::string text;
  };
  using MadeOne = std::function<void(Result<Made>)>;
  using Done = std::function<void(const Result<void>&)>;

  // Both outlive this.
  Tokens(Loop& loop, TokenStorage& archive) : loop_(loop), archive_(archive) {}
  ~Tokens();
  Tokens(const Tokens&) = delete;
  Tokens& operator=(const Tokens&) = delete;

  void start();
  // Whether the stored tokens have been read.
  bool loaded() const { return loaded_; }

  // Counts one request to create or revoke tokens. Returns the time until the next is allowed if
  // the user is over the limit; administrators have none.
  std::optional<Duration> count_change(const Requester&);

  // Answers once the token is kept. Errc::conflict if its user has another of that name, busy
  // beyond the limits above, invalid if its lifetime is out of range.
  void make(TokenWish, MadeOne made);
  // Refuses these tokens from now on, and answers once that is stored. Returns those that were not
  // revoked before. An error means that it is not stored: the tokens are refused all the same, and
  // the write is retried until it succeeds.
  std::vector<std::string> revoke(const std::vector<std::string>& ids, const std::string& by,
                                  Done done, Requester requester = Requester::daemon());

  // Returns the good token of this text. Errc::denied if it is unknown, wrong, revoked or expired:
  // who does not know the secret cannot tell which. Errc::unavailable until the tokens are read.
  Result<const Token*> check(std::string_view text) const;
  // Notes that this token was used now from there, over plain TCP if `in_clear`.
  void used(const std::string& id, const std::string& from, bool in_clear = false);

  const Token* find(const std::string& id) const;
  // By the time at which they were made; ended ones too, as long as they are remembered.
  std::vector<Token> all() const;
  // The owners of valid tokens.
  std::vector<std::uint32_t> users() const;
  // Whether the last change of this token is not stored yet, so that a restart would undo it.
  bool owes(const std::string& id) const { return owed_.contains(id); }
  // When the first of the good tokens ends that were made to last for `life` or more.
  std::optional<WallTime> first_end(Duration life) const;

  // Calls `ended` once when this token is no longer good: at once when it is revoked, within
  // EndWatch::kLook when it expires, also if the clock jumps.
  Subscription on_end(const std::string& id, std::function<void()> ended) {
    return ends_.on_end(id, std::move(ended));
  }

 private:
  Result<void> check_wish(const TokenWish&) const;
  Result<void> check_room(const TokenWish&) const;
  bool may_forget(const Token&) const;
  void forget_oldest_ended(TokenTransaction&);
  void look_at_clock();
  void save(TokenTransaction, Done);
  void keep_owed();
  void keep_use();
  void try_load();

  Loop& loop_;
  TokenStorage& archive_;
  bool loaded_ = false;
  std::map<std::string, Token> tokens_;             // by id
  std::set<std::string> used_;                      // their last use is not stored yet
  std::set<std::string> owed_;                      // their revocation is not stored yet
  std::map<std::string, TimePoint> expired_since_;  // found expired at every check since then
  KeyedRateLimiter<std::string> changes_of_{shares::kTokenChangesAMinute};  // by party
  EndWatch<std::string> ends_{loop_, [this](const std::string& id) {
                                const Token* const token = find(id);
                                return token != nullptr && token->live(loop_.wall());
                              }};
  Subscription keep_;
  Subscription again_;
  Subscription keep_again_;  // runs only after a failure
  Subscription clock_;
  Lifetime here_;
};

}  // namespace gpuyard::access
