#include "core/auth/auth_throttle.h"

#include <gtest/gtest.h>

#include "base/manual_loop_for_tests.h"

namespace gpuyard::auth {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

class AuthThrottleTest : public ::testing::Test {
 protected:
  // Returns how long the reply took; nothing if it was refused.
  std::optional<Duration> fail_authentication(const std::string& from = "192.0.2.7") {
    bool answered = false;
    const bool taken = guesses_.record_failure(
        from, [this](std::uint64_t count) { noted_.push_back(count); }, [&] { answered = true; });
    if (!taken) return std::nullopt;
    Duration waited{};
    while (!answered && waited < minutes(1)) {
      loop_.advance(milliseconds(50));
      waited += milliseconds(50);
    }
    return waited;
  }

  ManualLoop loop_;
  AuthThrottle guesses_{loop_};
  std::vector<std::uint64_t> noted_;
};

TEST_F(AuthThrottleTest, DelayDoublesAfterFreeAttemptsUpToMax) {
  for (int i = 0; i < AuthThrottle::kMaxUndelayedFailures; ++i)
    EXPECT_EQ(fail_authentication(), Duration::zero());
  EXPECT_EQ(fail_authentication(), milliseconds(100));
  EXPECT_EQ(fail_authentication(), milliseconds(200));
  EXPECT_EQ(fail_authentication(), milliseconds(400));
  for (int i = 0; i < 10; ++i) fail_authentication();
  EXPECT_EQ(fail_authentication(), AuthThrottle::kMaxDelay);
}

TEST_F(AuthThrottleTest, DelayIsPerAddress) {
  for (int i = 0; i < 10; ++i) fail_authentication();
  EXPECT_EQ(fail_authentication("192.0.2.8"), Duration::zero());
}

TEST_F(AuthThrottleTest, FailuresAreEvictedAfterRetention) {
  for (int i = 0; i < 10; ++i) fail_authentication();
  loop_.advance(AuthThrottle::kFailureRetention);
  EXPECT_EQ(fail_authentication(), Duration::zero());
}

TEST_F(AuthThrottleTest, DelayedRepliesAreLimitedTo64) {
  int taken = 0;
  int sent = 0;
  for (int i = 0; i < 200; ++i)
    taken += guesses_.record_failure("x", [](auto) {}, [&] { ++sent; }) ? 1 : 0;
  EXPECT_EQ(sent, AuthThrottle::kMaxUndelayedFailures);
  EXPECT_EQ(taken, static_cast<int>(AuthThrottle::kMaxDelayedReplies) +
                       AuthThrottle::kMaxUndelayedFailures);
  loop_.advance(seconds(6));
  EXPECT_EQ(sent, taken);
}

TEST_F(AuthThrottleTest, RepeatedFailuresLogOncePerMinute) {
  for (int i = 0; i < 10'000; ++i) {
    guesses_.record_failure(
        "192.0.2.7", [this](std::uint64_t count) { noted_.push_back(count); }, [] {});
    loop_.advance(milliseconds(360));
  }
  EXPECT_LE(noted_.size(), 61U);
  EXPECT_GE(noted_.size(), 59U);
  EXPECT_EQ(noted_.front(), 1U);
}

TEST_F(AuthThrottleTest, RememberedAddressesAreLimited) {
  for (std::size_t i = 0; i < 3 * AuthThrottle::kMaxAddresses; ++i) {
    EXPECT_EQ(fail_authentication("192.0.2." + std::to_string(i)), Duration::zero());
  }
  EXPECT_EQ(noted_.size(), 3 * AuthThrottle::kMaxAddresses);
}

}  // namespace
}  // namespace gpuyard::auth
