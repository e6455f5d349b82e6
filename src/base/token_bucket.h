// Rate limits: one in all (TokenBucket), or one for each of many keys (KeyedRateLimiter). Pure
// state.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>

#include "base/clock.h"

namespace gpuyard {

// A burst at once, then a rate per second.
class TokenBucket {
 public:
  TokenBucket(double burst, double per_second, TimePoint now)
      : burst_(burst), per_second_(per_second), tokens_(burst), filled_at_(now) {}

  // Takes a token and returns nothing; without a token, returns the time until there is one.
  std::optional<Duration> take(TimePoint now) {
    tokens_ = tokens_at(now);
    filled_at_ = now;
    if (tokens_ >= 1) {
      tokens_ -= 1;
      return std::nullopt;
    }
    const std::chrono::duration<double> until((1 - tokens_) / per_second_);
    return std::chrono::ceil<Duration>(until);
  }
  bool has_token(TimePoint now) const { return tokens_at(now) >= 1; }
  bool is_full(TimePoint now) const { return tokens_at(now) >= burst_; }

 private:
  double tokens_at(TimePoint now) const {
    const std::chrono::duration<double> passed = now - filled_at_;
    return std::min(burst_, tokens_ + std::max(0.0, passed.count()) * per_second_);
  }

  double burst_;
  double per_second_;
  double tokens_;
  TimePoint filled_at_;
};

// A rate limit for each of many keys: `per_minute` a minute, which may all come at once. Remembers
// at most kMaxKeys keys; keys beyond that share one bucket.
template <class Key>
class KeyedRateLimiter {
 public:
  static constexpr std::size_t kMaxKeys = 1024;

  explicit KeyedRateLimiter(double per_minute) : per_minute_(per_minute) {}

  // Works like TokenBucket::take().
  std::optional<Duration> take(const Key& key, TimePoint now) {
    auto found = buckets_.find(key);
    if (found == buckets_.end() && buckets_.size() >= kMaxKeys) {
      std::erase_if(buckets_, [&](const auto& one) { return one.second.is_full(now); });
      if (buckets_.size() >= kMaxKeys) return take_shared(now);
    }
    if (found == buckets_.end()) found = buckets_.emplace(key, make_bucket(now)).first;
    return found->second.take(now);
  }

 private:
  TokenBucket make_bucket(TimePoint now) const {
    constexpr double kSecondsOfMinute = 60;
    return {per_minute_, per_minute_ / kSecondsOfMinute, now};
  }
  std::optional<Duration> take_shared(TimePoint now) {
    if (!shared_bucket_) shared_bucket_ = make_bucket(now);
    return shared_bucket_->take(now);
  }

  double per_minute_;
  std::map<Key, TokenBucket> buckets_;
  std::optional<TokenBucket> shared_bucket_;
};

}  // namespace gpuyard
