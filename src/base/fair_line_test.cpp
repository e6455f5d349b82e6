#include "base/fair_line.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

class FairLineTest : public ::testing::Test {
 protected:
  bool enter(const std::string& party, const std::string& what) {
    return line_->enter(party, [this, what](std::function<void()> ended) {
      began_.push_back(what);
      ended_.push_back(std::move(ended));
    });
  }
  void end_first() {
    const auto ended = std::move(ended_.front());
    ended_.erase(ended_.begin());
    ended();
  }

  std::optional<FairLine<std::string>> line_{std::in_place, 2, 3};
  std::vector<std::string> began_;
  std::vector<std::function<void()>> ended_;
};

TEST_F(FairLineTest, WhoAsksForMuchWaitsBehindHimself) {
  for (const char* what : {"a1", "a2", "a3", "a4", "a5"}) EXPECT_TRUE(enter("a", what));
  EXPECT_FALSE(enter("a", "a6")) << "three of his wait";
  EXPECT_TRUE(enter("b", "b1"));
  EXPECT_EQ(began_, (std::vector<std::string>{"a1", "a2"}));
  while (!ended_.empty()) end_first();
  EXPECT_EQ(began_, (std::vector<std::string>{"a1", "a2", "a3", "b1", "a4", "a5"}));
}

TEST_F(FairLineTest, WhatEndsInItsOwnCallBeginsNoOtherInsideIt) {
  enter("a", "a1");
  enter("a", "a2");
  int inside = 0;
  int deepest = 0;
  int done = 0;
  for (int i = 0; i < 3; ++i) {
    line_->enter("b", [&](const std::function<void()>& ended) {
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

TEST_F(FairLineTest, WhatEndsAfterItIsGoneHarmsNobody) {
  enter("a", "a1");
  enter("a", "a2");
  enter("a", "a3");
  line_.reset();
  while (!ended_.empty()) end_first();
  EXPECT_EQ(began_.size(), 2U);
}

}  // namespace
}  // namespace gpuyard
