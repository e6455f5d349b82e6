// All tokens of this machine: who made which, which are good now, and whose streams end with one.
// Knows no HTTP and no disk.
//
// Thread: io.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/end_watch.h"
#include "base/keyed_rate_limiter.h"
#include "base/lifetime.h"
#include "base/limits.h"
#include "base/loop.h"
#include "base/requester.h"
#include "base/result.h"
#include "core/auth/token.h"

namespace gpuyard::auth {

// Committed together: all of it or nothing.
struct TokenTransaction {
  std::vector<Token> tokens;             // each replaces the one of its id
  std::vector<std::string> removed_ids;  // ids
  bool deferred_sync = false;            // a power cut may lose them: when tokens were last used
  Requester requester = Requester::daemon();
};

// Saves the tokens. Thread: io. A call returns false, and does nothing, if too much waits already.
// A callback never runs inside the call it was given to.
class TokenStorage {
 public:
  virtual ~TokenStorage() = default;
  virtual bool load(std::function<void(Result<std::vector<Token>>)> on_loaded) = 0;
  virtual bool save(TokenTransaction, std::function<void(const Result<void>&)> on_saved) = 0;
};

// A request for a new token.
struct TokenRequest {
  std::string name;
  std::optional<std::uint32_t> uid = {};  // empty: a service
  Scope scope = Scope::read;
  std::vector<DeviceId> gpus = {};
  std::optional<Duration> lifetime = {};  // empty: without end
  std::string made_by;
  bool by_admin = false;
  std::string quota_group = {};  // the requesting user: see Requester
};

class TokenStore {
 public:
  static constexpr std::size_t kMaxTokens = 1024;       // that are good, of all users
  static constexpr std::size_t kMaxTokensPerUser = 64;  // of one user
  static constexpr std::size_t kReservedForAdmins = 128;
  // Ended tokens that stay listed. Ended tokens that cannot be evicted yet count as valid beyond
  // kMaxTokensPerUser for each user.
  static constexpr std::size_t kMaxEndedTokens = 256;
  static constexpr std::size_t kMaxNameLength = 64;
  static constexpr Duration kUseSaveDelay = std::chrono::minutes(1);
  // An unsaved revocation is retried after this time.
  static constexpr Duration kSaveRetryDelay = std::chrono::seconds(5);
  // An expired token is removed only if every check of the clock found it expired for
  // kExpiredRetention, so that a temporarily wrong clock deletes nothing.
  static constexpr Duration kExpiredRetention = std::chrono::hours(24);
  static constexpr Duration kExpiryCheckInterval = std::chrono::hours(1);

  // A new token with its text, which is returned only once.
  struct CreatedToken {
    Token token;
    std::string text;
  };
  using OnCreated = std::function<void(Result<CreatedToken>)>;
  using OnDone = std::function<void(const Result<void>&)>;

  // The loop and the storage outlive the store.
  TokenStore(Loop& loop, TokenStorage& storage) : loop_(loop), storage_(storage) {}
  ~TokenStore();
  TokenStore(const TokenStore&) = delete;
  TokenStore& operator=(const TokenStore&) = delete;

  void start();
  // Whether the stored tokens have been read.
  bool is_loaded() const { return loaded_; }

  // Counts one request to create or revoke tokens. Returns the time until the next is allowed if
  // the user is over the limit; administrators have none.
  std::optional<Duration> count_change(const Requester&);

  // Calls back once the token is saved. Errc::conflict if its user has another of that name, busy
  // beyond the limits above, invalid if its lifetime is out of range.
  void create(TokenRequest, OnCreated on_created);
  // Refuses these tokens from now on, and calls back once that is stored. Returns those that were
  // not revoked before. An error means that it is not stored: the tokens are refused all the same,
  // and the write is retried until it succeeds.
  std::vector<std::string> revoke(const std::vector<std::string>& ids, const std::string& by,
                                  OnDone on_done, Requester requester = Requester::daemon());

  // Returns the good token of this text. Errc::denied if it is unknown, wrong, revoked or expired:
  // a client without the secret cannot tell which. Errc::unavailable until the tokens are read.
  Result<const Token*> authenticate(std::string_view text) const;
  // Records that this token was used now from there, over plain TCP if `in_clear`.
  void record_use(const std::string& id, const std::string& from, bool in_clear = false);

  const Token* find(const std::string& id) const;
  // Returns all tokens in the order of their creation; ended ones too, until they are evicted.
  std::vector<Token> all() const;
  // The owners of valid tokens.
  std::vector<std::uint32_t> users() const;
  // Whether the last change of this token is not stored yet, so that a restart would undo it.
  bool has_unsaved_revocation(const std::string& id) const {
    return unsaved_revocations_.contains(id);
  }
  // Returns when the first valid token ends that was made to last for `lifetime` or more.
  std::optional<WallTime> next_expiry(Duration lifetime) const;

  // Calls `on_end` once when this token is no longer good: at once when it is revoked, within
  // EndWatch::kPollInterval when it expires, also if the clock jumps.
  Subscription subscribe_to_end(const std::string& id, std::function<void()> on_end) {
    return end_watch_.subscribe(id, std::move(on_end));
  }

 private:
  Result<void> check_request(const TokenRequest&) const;
  Result<void> check_quota(const TokenRequest&) const;
  bool can_evict(const Token&) const;
  void evict_oldest_ended(TokenTransaction&);
  void update_expired_since();
  void save(TokenTransaction, OnDone);
  void save_revocations();
  void save_uses();
  void try_load();

  Loop& loop_;
  TokenStorage& storage_;
  bool loaded_ = false;
  std::map<std::string, Token> tokens_;             // by id
  std::set<std::string> unsaved_uses_;              // their last use is not stored yet
  std::set<std::string> unsaved_revocations_;       // their revocation is not stored yet
  std::map<std::string, TimePoint> expired_since_;  // found expired at every check since then
  KeyedRateLimiter<std::string> change_limiter_{limits::kTokenChangesPerMinute};  // by quota group
  EndWatch<std::string> end_watch_{loop_, [this](const std::string& id) {
                                     const Token* const token = find(id);
                                     return token != nullptr && token->is_valid(loop_.wall());
                                   }};
  Subscription use_save_timer_;
  Subscription load_timer_;
  Subscription revocation_save_timer_;  // runs only after a failure
  Subscription expiry_timer_;
  Lifetime lifetime_;
};

}  // namespace gpuyard::auth
