// Rate limits by key. Pure state.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "base/clock.h"
#include "base/token_bucket.h"

namespace gpuyard {

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
