// Limits what one party may take from the others: a TokenBucket and a RateOfEach say how often, a
// FairLine says whose turn it is. Single-threaded; the buckets are pure state.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

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
class RateOfEach {
 public:
  static constexpr std::size_t kMost = 1024;

  explicit RateOfEach(double a_minute) : a_minute_(a_minute) {}

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

// Queues work of which little can be done at a time and serves the parties in turn: a party with
// much work waits behind itself.
template <class Party>
class FairLine {
 public:
  // Begins the work. Calls `ended` once, during the call or later.
  using Work = std::function<void(std::function<void()> ended)>;

  // `at_once`: pieces of work that run at a time. `most_of_one`: pieces of one party that may wait.
  FairLine(std::size_t at_once, std::size_t most_of_one)
      : state_(std::make_shared<State>(State{at_once, most_of_one})) {}
  ~FairLine() { *state_ = State{0, 0}; }  // running work may end later
  FairLine(const FairLine&) = delete;
  FairLine& operator=(const FairLine&) = delete;

  // Returns false, and drops the work, if too much work of this party is waiting.
  bool enter(const Party& party, Work work) {
    auto& line = state_->waiting[party];
    if (line.size() >= state_->most_of_one) return false;
    if (line.empty()) state_->turns.push_back(party);
    line.push_back(std::move(work));
    go(state_);
    return true;
  }

 private:
  struct State {
    std::size_t at_once = 0;
    std::size_t most_of_one = 0;
    std::size_t running = 0;
    bool going = false;  // work that ends in its own call starts no other work inside it
    std::map<Party, std::deque<Work>> waiting = {};
    std::deque<Party> turns = {};  // parties with waiting work
  };

  static void go(const std::shared_ptr<State>& state) {
    if (std::exchange(state->going, true)) return;
    while (state->running < state->at_once && !state->turns.empty()) {
      const Party party = std::move(state->turns.front());
      state->turns.pop_front();
      auto& line = state->waiting[party];
      const Work work = std::move(line.front());
      line.pop_front();
      if (line.empty()) {
        state->waiting.erase(party);
      } else {
        state->turns.push_back(party);
      }
      ++state->running;
      work([state, ended = false]() mutable {
        if (std::exchange(ended, true) || state->running == 0) return;
        --state->running;
        go(state);
      });
    }
    state->going = false;
  }

  std::shared_ptr<State> state_;
};

}  // namespace gpuyard
