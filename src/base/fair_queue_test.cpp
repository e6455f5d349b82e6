#include "base/fair_queue.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

class FairQueueTest : public ::testing::Test {
 protected:
  bool enqueue(const std::string& group, const std::string& what, bool privileged = false) {
    return queue_->try_enqueue({group, privileged}, [this, what](std::function<void()> ended) {
      began_.push_back(what);
      ended_.push_back(std::move(ended));
    });
  }
  void end_first() {
    const auto ended = std::move(ended_.front());
    ended_.erase(ended_.begin());
    ended();
  }

  std::optional<FairQueue> queue_{std::in_place, 2, 3};
  std::vector<std::string> began_;
  std::vector<std::function<void()>> ended_;
};

TEST_F(FairQueueTest, LongBacklogYieldsTurnToOtherGroup) {
  for (const char* what : {"a1", "a2", "a3", "a4", "a5"}) EXPECT_TRUE(enqueue("a", what));
  EXPECT_FALSE(enqueue("a", "a6")) << "three of his wait";
  EXPECT_TRUE(enqueue("b", "b1"));
  EXPECT_EQ(began_, (std::vector<std::string>{"a1", "a2"}));
  while (!ended_.empty()) end_first();
  EXPECT_EQ(began_, (std::vector<std::string>{"a1", "a2", "a3", "b1", "a4", "a5"}));
}

TEST_F(FairQueueTest, PrivilegedWorkIsServedEverySecondTurn) {
  for (int i = 0; i < 100; ++i) enqueue(std::to_string(i), "user");
  enqueue("uid 0", "root", true);
  enqueue("uid 0", "root again", true);
  end_first();
  end_first();
  EXPECT_EQ(began_, (std::vector<std::string>{"user", "user", "root", "user"}));
  end_first();
  EXPECT_EQ(began_.back(), "root again");
}

TEST_F(FairQueueTest, UnusedTurnsGoToOtherGroups) {
  for (const char* what : {"r1", "r2", "r3"}) enqueue("uid 0", what, true);
  for (const char* what : {"r4", "r5"}) enqueue("uid 0", what, true);
  EXPECT_FALSE(enqueue("uid 0", "r6", true)) << "three of its requests are waiting";
  enqueue("a", "a1");
  enqueue("a", "a2");
  while (!ended_.empty()) end_first();
  EXPECT_EQ(began_, (std::vector<std::string>{"r1", "r2", "a1", "r3", "a2", "r4", "r5"}));
}

TEST_F(FairQueueTest, SynchronousCompletionDoesNotStartNextRecursively) {
  enqueue("a", "a1");
  enqueue("a", "a2");
  int inside = 0;
  int deepest = 0;
  int done = 0;
  for (int i = 0; i < 3; ++i) {
    queue_->try_enqueue({.quota_group = "b"}, [&](const std::function<void()>& ended) {
      deepest = std::max(deepest, ++inside);
      ended();
      --inside;
      ++done;
    });
  }
  end_first();
  EXPECT_EQ(done, 3);
  EXPECT_EQ(deepest, 1);
}

TEST_F(FairQueueTest, CompletionAfterDestructionIsIgnored) {
  enqueue("a", "a1");
  enqueue("a", "a2");
  enqueue("a", "a3");
  queue_.reset();
  while (!ended_.empty()) end_first();
  EXPECT_EQ(began_.size(), 2U);
}

}  // namespace
}  // namespace gpuyard
