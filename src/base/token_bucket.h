// How often something may be done: by one party (TokenBucket), or by each of many
// (KeyedRateLimiter). Pure state.
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
  TokenBucket(double burst, double each_second, TimePoint now)
      : burst_(burst), each_second_(each_second), left_(burst), filled_(now) {}

  // Takes a token and returns nothing; without a token, returns the time until there is one.
  std::optional<Duration> take(TimePoint now) {
    left_ = left_at(now);
    filled_ = now;
    if (left_ >= 1) {
      left_ -= 1;
      return std::nullopt;
    }
    const std::chrono::duration<double> until((1 - left_) / each_second_);
    return std::chrono::ceil<Duration>(until);
  }
  bool has_one(TimePoint now) const { return left_at(now) >= 1; }
  bool is_full(TimePoint now) const { return left_at(now) >= burst_; }

 private:
  double left_at(TimePoint now) const {
    const std::chrono::duration<double> passed = now - filled_;
    return std::min(burst_, left_ + std::max(0.0, passed.count()) * each_second_);
  }

  double burst_;
  double each_second_;
  double left_;
  TimePoint filled_;
};

// A rate limit for each of many keys: `a_minute` a minute, which may all come at once. Remembers at
// most kMost keys; keys beyond that share one bucket.
template <class Key>
class KeyedRateLimiter {
 public:
  static constexpr std::size_t kMost = 1024;

  explicit KeyedRateLimiter(double a_minute) : a_minute_(a_minute) {}

  // As TokenBucket::take().
  std::optional<Duration> take(const Key& who, TimePoint now) {
    auto found = buckets_.find(who);
    if (found == buckets_.end() && buckets_.size() >= kMost) {
      std::erase_if(buckets_, [&](const auto& one) { return one.second.is_full(now); });
      if (buckets_.size() >= kMost) return take_shared(now);
    }
    if (found == buckets_.end()) found = buckets_.emplace(who, bucket(now)).first;
    return found->second.take(now);
  }

 private:
  TokenBucket bucket(TimePoint now) const {
    constexpr double kSecondsOfMinute = 60;
    return {a_minute_, a_minute_ / kSecondsOfMinute, now};
  }
  std::optional<Duration> take_shared(TimePoint now) {
    if (!shared_) shared_ = bucket(now);
    return shared_->take(now);
  }

  double a_minute_;
  std::map<Key, TokenBucket> buckets_;
  std::optional<TokenBucket> shared_;
};

}  // namespace gpuyard
