// Coroutines: one co_await per statement, its arguments named.
#include "io/http/response_stream_sender.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>

namespace gpuyard::http {
namespace {

class TurnSchedulerTest : public testing::Test {
 protected:
  asio::awaitable<void> take_turn(int who, Duration takes, const QuotaGroup& party = kAlice) {
    co_await turns_.wait_for_turn(party);
    const TimePoint end = BootClock::now() + takes;
    while (BootClock::now() < end) {
    }
    had_.push_back(who);
  }
  asio::awaitable<void> sleep(int who) {
    co_await turns_.sleep(&had_, kAlice);
    had_.push_back(who);
  }
  void begin(asio::awaitable<void> one) {
    asio::co_spawn(io_, std::move(one), asio::detached);
    io_.poll();
    io_.restart();
  }
  // Other work on the loop: records how many had a turn since it last ran.
  void record_turns(std::size_t had_before) {
    most_at_once_ = std::max(most_at_once_, had_.size() - had_before);
    if (had_.size() == kCrowd) return;
    asio::post(io_, [this, had = had_.size()] { record_turns(had); });
  }

  static inline const QuotaGroup kAlice{.name = "uid 1000"};
  static inline const QuotaGroup kBob{.name = "uid 1001"};
  static constexpr std::size_t kCrowd = 50;
  asio::io_context io_;
  std::vector<int> had_;
  std::size_t most_at_once_ = 0;
  TurnScheduler turns_{io_};
};

TEST_F(TurnSchedulerTest, OtherWorkRunsBetweenTurns) {
  constexpr Duration kEach = TurnScheduler::kTurnBudget / 5;
  for (int who = 0; who < static_cast<int>(kCrowd); ++who) {
    asio::co_spawn(io_, take_turn(who, kEach), asio::detached);
  }
  asio::post(io_, [this] { record_turns(0); });
  io_.run();
  EXPECT_EQ(had_.size(), kCrowd);
  EXPECT_TRUE(std::ranges::is_sorted(had_)) << "who asked first is first";
  EXPECT_LE(most_at_once_, 6U);
}

TEST_F(TurnSchedulerTest, LargeQuotaGroupDoesNotDelaySmallOne) {
  for (int who = 0; who < 4; ++who) {
    asio::co_spawn(io_, take_turn(who, Duration::zero()), asio::detached);
  }
  asio::co_spawn(io_, take_turn(10, Duration::zero(), kBob), asio::detached);
  asio::co_spawn(io_, take_turn(11, Duration::zero(), kBob), asio::detached);
  io_.run();
  EXPECT_EQ(had_, (std::vector{0, 10, 1, 11, 2, 3}));
}

TEST_F(TurnSchedulerTest, RootHasEverySecondTurn) {
  static const std::vector<QuotaGroup> kStrangers = {
      {.name = "127.0.0.1"}, {.name = "127.0.0.2"}, {.name = "127.0.0.3"}, {.name = "127.0.0.4"}};
  static const QuotaGroup kRoot{.name = "uid 0", .privileged = true};
  for (int who = 0; who < 4; ++who) {
    const QuotaGroup& party = kStrangers[static_cast<std::size_t>(who)];
    asio::co_spawn(io_, take_turn(who, Duration::zero(), party), asio::detached);
  }
  asio::co_spawn(io_, take_turn(10, Duration::zero(), kRoot), asio::detached);
  asio::co_spawn(io_, take_turn(11, Duration::zero(), kRoot), asio::detached);
  io_.run();
  EXPECT_EQ(had_, (std::vector{10, 0, 11, 1, 2, 3}));
}

TEST_F(TurnSchedulerTest, WokenSleeperGetsOneTurn) {
  begin(sleep(1));
  EXPECT_TRUE(had_.empty());
  turns_.wake(this);  // no sleeper has this key
  io_.poll();
  io_.restart();
  EXPECT_TRUE(had_.empty());
  turns_.wake(&had_);
  turns_.wake(&had_);
  io_.run();
  EXPECT_EQ(had_, std::vector{1});
}

TEST_F(TurnSchedulerTest, DestructionDiscardsWaiters) {
  begin(sleep(1));
  asio::co_spawn(io_, take_turn(2, Duration::zero()), asio::detached);
  io_.poll_one();  // it waits, and its turn has not come
  EXPECT_TRUE(had_.empty());
}

}  // namespace
}  // namespace gpuyard::http
