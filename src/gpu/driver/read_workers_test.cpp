#include "gpu/driver/read_workers.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "gpu/device/fake_backend.h"
#include "gpu/driver/captured_replies_for_tests.h"

namespace gpuyard::driver {
namespace {

constexpr std::int64_t kMemory = std::int64_t{80} << 30U;

class ReadWorkersTest : public ::testing::Test {
 protected:
  ~ReadWorkersTest() override {
    for (std::uint32_t i = 0; i < 8; ++i) fleet_.unblock(i);
  }
  ReadListener listener() {
    return {std::ref(answers_), [this] { openings_(true); }};
  }
  // Waits until all GPUs are open, except those that the test has blocked.
  std::unique_ptr<ReadWorkers> make(Duration timeout = kTestTimeout) {
    auto readers = std::make_unique<ReadWorkers>(fleet_.backend(), 8, listener());
    devices_ = readers->devices(timeout);
    return readers;
  }
  DeviceId id(std::uint32_t index) const { return fleet_.inventory().devices[index].id; }

  FakeFleet fleet_ = FakeFleet::with_healthy_gpus(8, kMemory);
  CapturedReplies<ReadReply> answers_;
  CapturedReplies<bool> openings_;
  std::vector<DeviceInfo> devices_;
};

TEST_F(ReadWorkersTest, ReplyHasRequestIdAndGpu) {
  const auto readers = make();
  ASSERT_TRUE(readers->read({7, id(3), {Probe::memory}}));
  const auto replies = answers_.wait_for(1);
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(replies[0].id, 7U);
  EXPECT_EQ(replies[0].device, id(3));
  EXPECT_EQ(*replies[0].sample.number(Metric::memory_total), kMemory);
}

TEST_F(ReadWorkersTest, BlockedGpuDoesNotDelayOthers) {
  const auto readers = make();
  fleet_.block(0);
  for (std::uint32_t i = 0; i < 8; ++i) ASSERT_TRUE(readers->read({i, id(i), {Probe::memory}}));
  const auto replies = answers_.wait_for(7);
  EXPECT_EQ(replies.size(), 7U);
  for (const ReadReply& reply : replies) EXPECT_NE(reply.device, id(0));
}

TEST_F(ReadWorkersTest, GpuRequestsAreAnsweredInOrder) {
  const auto readers = make();
  fleet_.block(0);
  for (std::uint64_t i = 1; i <= 5; ++i) ASSERT_TRUE(readers->read({i, id(0), {Probe::memory}}));
  fleet_.unblock(0);
  const auto replies = answers_.wait_for(5);
  ASSERT_EQ(replies.size(), 5U);
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(replies[i].id, i + 1);
}

TEST_F(ReadWorkersTest, ABlockedGpusQueueIsBounded) {
  const auto readers = make();
  fleet_.block(0);
  std::size_t accepted = 0;
  for (std::uint64_t i = 0; i < 100; ++i) accepted += readers->read({i, id(0), {}}) ? 1 : 0;
  EXPECT_GE(accepted, ReadWorkers::kMaxQueued);
  EXPECT_LE(accepted, ReadWorkers::kMaxQueued + 1);  // one may already be inside the call
}

TEST_F(ReadWorkersTest, UnknownGpuIsRefused) {
  const auto readers = make();
  EXPECT_FALSE(readers->read({1, "GPU-nobody", {Probe::memory}}));
}

TEST_F(ReadWorkersTest, OpenTimeoutIsListedWithoutAffectingOtherGpus) {
  fleet_.block(3);
  const auto readers = make(std::chrono::milliseconds(20));
  // A busy machine is slow to open the others too.
  const TimePoint ages = BootClock::now() + kTestTimeout;
  const auto failed = [](const DeviceInfo& device) { return device.fault.has_value(); };
  while (std::ranges::count_if(devices_, failed) > 1 && BootClock::now() < ages) {
    devices_ = readers->devices(std::chrono::milliseconds(20));
  }
  ASSERT_EQ(devices_.size(), 8U);
  EXPECT_EQ(devices_[3].id, "index:3");
  EXPECT_EQ(devices_[3].fault->reason, MissingReason::timed_out);
  EXPECT_FALSE(devices_[7].fault);
  EXPECT_FALSE(readers->read({1, id(3), {Probe::memory}}));
  EXPECT_TRUE(readers->read({2, id(7), {Probe::memory}}));
  EXPECT_EQ(answers_.wait_for(1).size(), 1U);
}

TEST_F(ReadWorkersTest, LateOpenedGpuIsReportedAndReadable) {
  fleet_.block(3);
  const auto readers = make(std::chrono::milliseconds(20));
  fleet_.unblock(3);
  ASSERT_FALSE(openings_.wait_for(1).empty());
  EXPECT_EQ(readers->devices(kTestTimeout)[3].id, id(3));
  EXPECT_TRUE(readers->read({1, id(3), {Probe::memory}}));
  EXPECT_EQ(answers_.wait_for(1).size(), 1U);
}

TEST_F(ReadWorkersTest, OpenGpuIsFoundByKey) {
  const auto readers = make();
  EXPECT_EQ(readers->index_of(id(3)), 3U);
  EXPECT_FALSE(readers->index_of("GPU-nobody"));
}

TEST_F(ReadWorkersTest, AGpuWithAFaultIsNotRead) {
  const DeviceId lost = id(0);
  fleet_.remove_gpu(0);
  const auto readers = make();
  EXPECT_EQ(devices_[0].fault->reason, MissingReason::device_lost);
  EXPECT_FALSE(readers->read({1, lost, {Probe::memory}}));
}

TEST_F(ReadWorkersTest, ShutdownAbandonsStuckCallAndDropsReply) {
  const auto answered = std::make_shared<std::atomic<int>>(0);
  std::shared_ptr<Backend> backend = fleet_.backend();
  const std::weak_ptr<Backend> still_used = backend;
  {
    ReadWorkers readers(backend, 8, {[answered](const ReadReply&) { ++*answered; }});
    const DeviceId stuck = readers.devices(kTestTimeout)[2].id;
    fleet_.block(2);
    ASSERT_TRUE(readers.read({1, stuck, {Probe::memory}}));
  }  // returns although GPU 2 is stuck
  backend.reset();
  fleet_.unblock(2);
  for (const auto end = BootClock::now() + kTestTimeout; !still_used.expired();) {
    ASSERT_LT(BootClock::now(), end) << "the thread left behind never let go of the backend";
    std::this_thread::yield();
  }
  EXPECT_EQ(*answered, 0) << "an answer after the end";
}

TEST_F(ReadWorkersTest, ShutdownAfterLastCallReleasesBackend) {
  std::shared_ptr<Backend> backend = fleet_.backend();
  const std::weak_ptr<Backend> still_used = backend;
  {
    const ReadWorkers readers(std::move(backend), 8, listener());
    readers.devices(kTestTimeout);
  }
  EXPECT_TRUE(still_used.expired());
}

}  // namespace
}  // namespace gpuyard::driver
