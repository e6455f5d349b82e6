// One rate limit. Pure state.
#pragma once

#include <algorithm>
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

}  // namespace gpuyard
