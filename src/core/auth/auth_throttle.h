// Failed attempts to show a token, by address. 256 random bits cannot be guessed; what is guarded
// here is the daemon's time and its log. A good token is never delayed, wherever it comes from:
// many people may share an address.
//
// Thread: io. The loop outlives the throttle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/clock.h"
#include "base/loop.h"

namespace gpuyard::auth {

class AuthThrottle {
 public:
  static constexpr int kMaxUndelayedFailures = 5;  // are answered without a delay
  static constexpr Duration kMinDelay = std::chrono::milliseconds(100);
  static constexpr Duration kMaxDelay = std::chrono::seconds(5);
  // Replies that wait, of all addresses.
  static constexpr std::size_t kMaxDelayedReplies = 64;
  static constexpr std::size_t kMaxAddresses = 1024;                       // that are remembered
  static constexpr Duration kFailureRetention = std::chrono::minutes(10);  // after the last failure
  static constexpr Duration kLogInterval = std::chrono::minutes(1);

  // Called if a failure is to be logged, with the number of failures since the last line.
  using OnLogDue = std::function<void(std::uint64_t since_the_last)>;

  explicit AuthThrottle(Loop& loop) : loop_(loop) {}

  // Calls `send_reply` now or later; false, without calling it, if too many wait already. Calls
  // `on_log_due` at an address's first failure and then at most once in kLogInterval.
  bool record_failure(const std::string& address, const OnLogDue& on_log_due,
                      std::function<void()> send_reply);

 private:
  struct Address {
    int failures = 0;
    TimePoint last_failure_at{};
    TimePoint logged_at{};
    std::uint64_t unlogged_failures = 0;
  };

  Address& find_or_add(const std::string& address);
  Duration delay_of(const Address&) const;

  Loop& loop_;
  std::map<std::string, Address> addresses_;
  std::map<std::uint64_t, Subscription> delayed_replies_;
  std::uint64_t next_reply_ = 0;
};

}  // namespace gpuyard::auth
