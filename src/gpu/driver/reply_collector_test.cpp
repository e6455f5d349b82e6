#include "gpu/driver/reply_collector.h"

#include <gtest/gtest.h>

namespace gpuyard::driver {
namespace {

using Sent = std::vector<std::vector<std::uint64_t>>;

class ReplyCollectorTest : public ::testing::Test {
 protected:
  void expect(const std::vector<std::uint64_t>& ids) {
    ReadRequests requests;
    for (const std::uint64_t id : ids) requests.push_back({id, "GPU-a", {}});
    collector_.expect(requests, now_);
  }
  void add(std::uint64_t id) { collector_.add({id, "GPU-a", {}}); }

  TimePoint now_{std::chrono::hours(1)};
  Sent sent_;
  ReplyCollector collector_{[this](const ReadReplies& replies) {
    auto& ids = sent_.emplace_back();
    for (const ReadReply& reply : replies) ids.push_back(reply.id);
  }};
};

TEST_F(ReplyCollectorTest, RepliesToOneMessageAreBatched) {
  expect({1, 2, 3});
  EXPECT_EQ(collector_.deadline(), now_ + ReplyCollector::kMaxDelay);
  add(2);
  add(3);
  EXPECT_EQ(sent_, Sent{});
  add(1);
  EXPECT_EQ(sent_, (Sent{{2, 3, 1}}));
  EXPECT_EQ(collector_.deadline(), std::nullopt);
}

TEST_F(ReplyCollectorTest, SingleReplyIsNotDelayed) {
  expect({1});
  EXPECT_EQ(collector_.deadline(), std::nullopt);
  add(1);
  EXPECT_EQ(sent_, Sent{{1}});
}

TEST_F(ReplyCollectorTest, BatchesAreIndependent) {
  expect({1, 2});
  expect({3, 4});
  add(3);
  add(1);
  add(4);
  EXPECT_EQ(sent_, (Sent{{3, 4}}));
  add(2);
  EXPECT_EQ(sent_, (Sent{{3, 4}, {1, 2}}));
}

TEST_F(ReplyCollectorTest, IncompleteBatchIsSentAfterMaxDelay) {
  expect({1, 2, 3});
  add(1);
  collector_.send_late(now_ + ReplyCollector::kMaxDelay - Duration(1));
  EXPECT_EQ(sent_, Sent{});
  collector_.send_late(now_ + ReplyCollector::kMaxDelay);
  EXPECT_EQ(sent_, Sent{{1}});
  EXPECT_EQ(collector_.deadline(), std::nullopt);
  add(3);
  add(2);
  EXPECT_EQ(sent_, (Sent{{1}, {3}, {2}}));
}

TEST_F(ReplyCollectorTest, EmptyBatchIsNotSent) {
  expect({1, 2});
  collector_.send_late(now_ + ReplyCollector::kMaxDelay);
  EXPECT_EQ(sent_, Sent{});
}

}  // namespace
}  // namespace gpuyard::driver
