#include "core/auth/auth_throttle.h"

#include <gtest/gtest.h>

#include "base/manual_loop_for_tests.h"

namespace gpuyard::access {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

class GuessesTest : public ::testing::Test {
 protected:
  // Returns how long the answer took; nothing if it was refused.
  std::optional<Duration> guess(const std::string& from = "192.0.2.7") {
    bool answered = false;
    const bool taken = guesses_.failed(
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
  Guesses guesses_{loop_};
  std::vector<std::uint64_t> noted_;
};

TEST_F(GuessesTest, DelayDoublesAfterFreeAttemptsUpToMax) {
  for (int i = 0; i < Guesses::kFree; ++i) EXPECT_EQ(guess(), Duration::zero());
  EXPECT_EQ(guess(), milliseconds(100));
  EXPECT_EQ(guess(), milliseconds(200));
  EXPECT_EQ(guess(), milliseconds(400));
  for (int i = 0; i < 10; ++i) guess();
  EXPECT_EQ(guess(), Guesses::kLongest);
}

TEST_F(GuessesTest, DelayIsPerAddress) {
  for (int i = 0; i < 10; ++i) guess();
  EXPECT_EQ(guess("192.0.2.8"), Duration::zero());
}

TEST_F(GuessesTest, AfterAWhileItIsForgotten) {
  for (int i = 0; i < 10; ++i) guess();
  loop_.advance(Guesses::kForgotten);
  EXPECT_EQ(guess(), Duration::zero());
}

TEST_F(GuessesTest, NoMoreThan64Wait) {
  int taken = 0;
  for (int i = 0; i < 200; ++i) taken += guesses_.failed("x", [](auto) {}, [] {}) ? 1 : 0;
  EXPECT_EQ(guesses_.waiting(), Guesses::kWaiting);
  EXPECT_EQ(taken, static_cast<int>(Guesses::kWaiting) + Guesses::kFree);
  loop_.advance(seconds(6));
  EXPECT_EQ(guesses_.waiting(), 0U);
}

TEST_F(GuessesTest, AnHourOfThemIsALineAMinute) {
  for (int i = 0; i < 10'000; ++i) {
    guesses_.failed("192.0.2.7", [this](std::uint64_t count) { noted_.push_back(count); }, [] {});
    loop_.advance(milliseconds(360));
  }
  EXPECT_LE(noted_.size(), 61U);
  EXPECT_GE(noted_.size(), 59U);
  EXPECT_EQ(noted_.front(), 1U);
}

TEST_F(GuessesTest, ManyAddressesAreNotAllRemembered) {
  for (std::size_t i = 0; i < 3 * Guesses::kAddresses; ++i) {
    EXPECT_EQ(guess("192.0.2." + std::to_string(i)), Duration::zero());
  }
  EXPECT_EQ(noted_.size(), 3 * Guesses::kAddresses);
}

}  // namespace
}  // namespace gpuyard::access
