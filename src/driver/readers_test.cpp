#include "driver/readers.h"

#include <atomic>
#include <condition_variable>
#include <mutex>

#include <gtest/gtest.h>

#include "device/fake_backend.h"

namespace gpuyard::driver {
namespace {

constexpr std::int64_t kMemory = std::int64_t{80} << 30U;
constexpr std::chrono::seconds kAges{30};  // only a broken test waits so long

// Collects answers and waits for them.
class Answers {
 public:
  Readers::Done sink() {
    return [this](ReadReply reply) {
      const std::lock_guard lock(mutex_);
      replies_.push_back(std::move(reply));
      changed_.notify_all();
    };
  }
  std::vector<ReadReply> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kAges, [&] { return replies_.size() >= count; });
    return replies_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ReadReply> replies_;
};

class ReadersTest : public ::testing::Test {
 protected:
  ~ReadersTest() override {
    for (std::uint32_t i = 0; i < 8; ++i) fleet_.unblock(i);
  }
  Readers make() { return {fleet_.backend(), fleet_.fleet().devices, answers_.sink()}; }
  DeviceId id(std::uint32_t index) const { return fleet_.fleet().devices[index].id; }

  FakeFleet fleet_ = FakeFleet::with_healthy_gpus(8, kMemory);
  Answers answers_;
};

TEST_F(ReadersTest, AnAnswerCarriesTheQuestionsIdAndTheGpu) {
  Readers readers = make();
  ASSERT_TRUE(readers.read({7, id(3), {Probe::memory}}));
  const auto replies = answers_.wait_for(1);
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(replies[0].id, 7U);
  EXPECT_EQ(replies[0].device, id(3));
  EXPECT_EQ(*replies[0].sample.number(Metric::memory_total), kMemory);
}

TEST_F(ReadersTest, OneBlockedGpuDoesNotHoldUpTheOthers) {
  Readers readers = make();
  fleet_.block(0);
  for (std::uint32_t i = 0; i < 8; ++i) ASSERT_TRUE(readers.read({i, id(i), {Probe::memory}}));
  const auto replies = answers_.wait_for(7);
  EXPECT_EQ(replies.size(), 7U);
  for (const ReadReply& reply : replies) EXPECT_NE(reply.device, id(0));
}

TEST_F(ReadersTest, OneGpusQuestionsAreAnsweredInOrder) {
  Readers readers = make();
  fleet_.block(0);
  for (std::uint64_t i = 1; i <= 5; ++i) ASSERT_TRUE(readers.read({i, id(0), {Probe::memory}}));
  fleet_.unblock(0);
  const auto replies = answers_.wait_for(5);
  ASSERT_EQ(replies.size(), 5U);
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(replies[i].id, i + 1);
}

TEST_F(ReadersTest, ABlockedGpusQueueIsBounded) {
  Readers readers = make();
  fleet_.block(0);
  std::size_t accepted = 0;
  for (std::uint64_t i = 0; i < 100; ++i) accepted += readers.read({i, id(0), {}}) ? 1 : 0;
  EXPECT_GE(accepted, Readers::kMaxQueued);
  EXPECT_LE(accepted, Readers::kMaxQueued + 1);  // one may be inside the call already
}

TEST_F(ReadersTest, AGpuThatIsNotThereIsRefused) {
  Readers readers = make();
  EXPECT_FALSE(readers.read({1, "GPU-nobody", {Probe::memory}}));
}

TEST_F(ReadersTest, AGpuWithAFaultIsNotRead) {
  auto devices = fleet_.fleet().devices;
  devices[0].fault = Missing{MissingReason::failed, "Unknown Error"};
  Readers readers(fleet_.backend(), devices, answers_.sink());
  EXPECT_FALSE(readers.read({1, id(0), {Probe::memory}}));
  EXPECT_TRUE(readers.read({1, id(1), {Probe::memory}}));
  answers_.wait_for(1);
}

TEST_F(ReadersTest, EndingDoesNotWaitForACallThatNeverReturns) {
  auto answered = std::make_shared<std::atomic<int>>(0);
  fleet_.block(2);
  {
    Readers readers(fleet_.backend(), fleet_.fleet().devices,
                    [answered](ReadReply) { ++*answered; });
    ASSERT_TRUE(readers.read({1, id(2), {Probe::memory}}));
  }  // comes back although GPU 2 is stuck
  fleet_.unblock(2);
  EXPECT_EQ(*answered, 0) << "an answer after the end";
}

}  // namespace
}  // namespace gpuyard::driver
