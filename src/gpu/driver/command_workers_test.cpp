#include "gpu/driver/command_workers.h"

#include <algorithm>
#include <functional>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "gpu/device/fake_backend.h"
#include "gpu/driver/captured_replies_for_tests.h"

namespace gpuyard::driver {
namespace {

using fakes::FakeWrite;

class CommandWorkersTest : public ::testing::Test {
 protected:
  ~CommandWorkersTest() override {
    for (std::uint32_t i = 0; i < kGpus; ++i) fleet_.unblock(i);
  }
  std::unique_ptr<CommandWorkers> make() {
    return std::make_unique<CommandWorkers>(fleet_.backend(), kGpus, std::ref(answers_));
  }
  CommandRequest limit(std::uint32_t index, std::uint64_t id, std::int64_t watts = 250) {
    return {id, devices_[index].id, Apply{power_limit(watts * 1'000)}, "", {}};
  }

  static constexpr std::uint32_t kGpus = 4;
  FakeFleet fleet_ = FakeFleet::with_healthy_gpus(kGpus, 1'000);
  const std::vector<DeviceInfo> devices_ = fleet_.inventory().devices;
  CapturedReplies<CommandReply> answers_;
};

TEST_F(CommandWorkersTest, StartMakesAndLogsWorkerPerGpu) {
  RecordProperty("contract", "B6 B5 B7");
  const CapturedLog log;
  const auto commanders = make();
  EXPECT_EQ(commanders->gpu_count(), kGpus);
  for (std::uint32_t i = 0; i < kGpus; ++i) {
    EXPECT_EQ(log.lines()[i],
              "INFO Background task for GPU " + std::to_string(i) + " successfully spawned");
  }
}

TEST_F(CommandWorkersTest, ACommandIsAnsweredWithItsOwnResult) {
  RecordProperty("contract", "B3 B4 B10");
  const auto commanders = make();
  fleet_.set_number(2, Metric::energy_total, 4711);
  ASSERT_TRUE(commanders->send(2, {9, devices_[2].id, ReadEnergy{}, "", {}}).ok());
  const auto replies = answers_.wait_for(1);
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(replies[0].id, 9U);
  EXPECT_EQ(replies[0].energy_mj, 4711);
}

TEST_F(CommandWorkersTest, CommandsOfOneGpuRunSequentiallyInOrder) {
  RecordProperty("contract", "B13 B18");
  const auto commanders = make();
  fleet_.block(0);
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(commanders->send(0, limit(0, i, 200 + static_cast<std::int64_t>(i))).ok());
  }
  fleet_.unblock(0);
  const auto replies = answers_.wait_for(20);
  ASSERT_EQ(replies.size(), 20U);
  for (std::uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(replies[i].id, i);
    EXPECT_EQ(
        fleet_.writes()[i].what,
        decltype(FakeWrite::what)(power_limit(200'000 + static_cast<std::int64_t>(i) * 1'000)));
    if (i == 0) continue;
    EXPECT_GE(replies[i].began, replies[i - 1].done);
  }
}

TEST_F(CommandWorkersTest, GpusDoNotWaitForEachOther) {
  RecordProperty("contract", "B13");
  const auto commanders = make();
  fleet_.block(0);
  for (std::uint32_t i = 0; i < kGpus; ++i) ASSERT_TRUE(commanders->send(i, limit(i, i)).ok());
  const auto replies = answers_.wait_for(kGpus - 1);
  ASSERT_EQ(replies.size(), kGpus - 1);
  for (const CommandReply& reply : replies) EXPECT_NE(reply.device, devices_[0].id);
}

TEST_F(CommandWorkersTest, FullQueueRefusesCommandAsBusy) {
  RecordProperty("contract", "B18");
  const auto commanders = make();
  fleet_.block(0);
  std::uint64_t accepted = 0;
  Result<void> refused;
  while ((refused = commanders->send(0, limit(0, accepted))).ok()) ++accepted;
  EXPECT_EQ(refused.error().code, Errc::busy);
  EXPECT_EQ(refused.error().message, "64 commands are already queued for GPU 0; try again later");
  EXPECT_GE(accepted, CommandWorkers::kMaxQueued);
  EXPECT_LE(accepted, CommandWorkers::kMaxQueued + 1);  // one may already be inside the call
  EXPECT_TRUE(commanders->send(1, limit(1, 99)).ok()) << "its neighbours are not";
  fleet_.unblock(0);
  EXPECT_EQ(answers_.wait_for(accepted + 1).size(), accepted + 1);
}

TEST_F(CommandWorkersTest, UnknownGpuIsRefusedBeforeQueueing) {
  RecordProperty("contract", "B11");
  const auto commanders = make();
  EXPECT_EQ(commanders->send(kGpus, limit(0, 1)).error(),
            (Error{Errc::not_found, "GPU index 4 is out of range"}));
  commanders->close();
  EXPECT_TRUE(answers_.so_far().empty());
}

TEST_F(CommandWorkersTest, AClosedQueueIsAnError) {
  RecordProperty("contract", "B11");
  const auto commanders = make();
  commanders->close();
  EXPECT_EQ(commanders->send(1, limit(1, 1)).error(),
            (Error{Errc::unavailable, "GPU 1 accepts no more commands: shutting down"}));
  EXPECT_TRUE(answers_.so_far().empty());
}

TEST_F(CommandWorkersTest, ShutdownExecutesQueuedCommandsFirst) {
  RecordProperty("contract", "B8");
  auto commanders = make();
  for (std::uint64_t i = 0; i < 50; ++i) ASSERT_TRUE(commanders->send(3, limit(3, i)).ok());
  commanders.reset();
  const auto replies = answers_.so_far();
  ASSERT_EQ(replies.size(), 50U);
  for (const CommandReply& reply : replies) EXPECT_FALSE(reply.failure);
  EXPECT_EQ(fleet_.writes().size(), 50U);
}

TEST_F(CommandWorkersTest, ShutdownTerminatesCommandsOfStuckGpu) {
  RecordProperty("contract", "B8 B12");
  auto commanders = make();
  fleet_.block(2);
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(commanders->send(2, limit(2, i)).ok());
  ASSERT_TRUE(commanders->send(1, limit(1, 7)).ok());
  const TimePoint began = BootClock::now();
  commanders.reset();
  EXPECT_LT(BootClock::now() - began, kTestTimeout);
  const auto replies = answers_.so_far();
  ASSERT_EQ(replies.size(), 4U);
  EXPECT_EQ(std::ranges::count_if(replies, [](const auto& reply) { return !reply.failure; }), 1);
  for (std::uint64_t i = 0; i < 3; ++i) {
    const CommandReply& reply = replies[i + 1];
    EXPECT_EQ(reply.id, i) << "in the order of their arrival";
    EXPECT_EQ(*reply.failure, terminated_error(2));
    EXPECT_EQ(reply.failure->message, "GPU management task for GPU 2 terminated");
  }
}

TEST_F(CommandWorkersTest, LateReturnAfterTerminationSendsNoSecondReply) {
  RecordProperty("contract", "B12");
  std::shared_ptr<Backend> backend = fleet_.backend();
  const std::weak_ptr<Backend> still_used = backend;
  auto commanders = std::make_unique<CommandWorkers>(backend, kGpus, std::ref(answers_));
  fleet_.block(2);
  ASSERT_TRUE(commanders->send(2, limit(2, 1)).ok());
  ASSERT_TRUE(commanders->send(2, limit(2, 2)).ok());
  commanders.reset();
  backend.reset();
  EXPECT_EQ(answers_.so_far().size(), 2U);
  fleet_.unblock(2);
  const TimePoint until = BootClock::now() + kTestTimeout;
  while (!still_used.expired() && BootClock::now() < until) std::this_thread::yield();
  EXPECT_TRUE(still_used.expired()) << "the thread that was left behind has ended";
  EXPECT_EQ(answers_.so_far().size(), 2U);
}

TEST_F(CommandWorkersTest, ReplyCallbackMaySendCommand) {
  std::unique_ptr<CommandWorkers> commanders;
  std::promise<CommandReply> second;
  commanders = std::make_unique<CommandWorkers>(fleet_.backend(), kGpus, [&](CommandReply reply) {
    if (reply.id == 1) {
      EXPECT_TRUE(commanders->send(0, limit(0, 2)).ok());
    } else {
      second.set_value(std::move(reply));
    }
  });
  ASSERT_TRUE(commanders->send(0, limit(0, 1)).ok());
  auto future = second.get_future();
  ASSERT_EQ(future.wait_for(kTestTimeout), std::future_status::ready);
  EXPECT_FALSE(future.get().failure);
}

TEST_F(CommandWorkersTest, ReplyCallbackMayDestroyWorkers) {
  std::unique_ptr<CommandWorkers> commanders;
  std::promise<void> ended;
  std::vector<std::uint64_t> replied;  // only GPU 0's thread writes it
  fleet_.block(0);
  commanders =
      std::make_unique<CommandWorkers>(fleet_.backend(), kGpus, [&](const CommandReply& reply) {
        replied.push_back(reply.id);
        if (reply.id != 1) return;
        commanders.reset();
        ended.set_value();
      });
  for (std::uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(commanders->send(0, limit(0, id)).ok());
  fleet_.unblock(0);
  ASSERT_EQ(ended.get_future().wait_for(kTestTimeout), std::future_status::ready);
  EXPECT_EQ(replied, (std::vector<std::uint64_t>{1, 2, 3})) << "the others as terminated";
}

TEST_F(CommandWorkersTest, ReceivedTimeIsKeptOrDefaultsToNow) {
  RecordProperty("contract", "B4 B16");
  constexpr double kHourMs = 3600e3;  // no machine is so busy that the other command takes an hour
  const CapturedLog log;
  {
    const auto commanders = make();
    CommandRequest request = limit(0, 1);
    request.received = BootClock::now() - std::chrono::hours(1);
    ASSERT_TRUE(commanders->send(0, request).ok());
    ASSERT_TRUE(commanders->send(1, limit(1, 2)).ok());
    answers_.wait_for(2);
  }
  const auto milliseconds_of = [&](const std::string& gpu) {
    const std::string start =
        "INFO Power limit set to 250 W [gpu=" + gpu + " time_to_command_done=";
    for (const std::string& line : log.lines()) {
      if (line.starts_with(start)) return std::stod(line.substr(start.size()));
    }
    return -1.0;
  };
  EXPECT_GE(milliseconds_of("0"), kHourMs);
  EXPECT_GE(milliseconds_of("1"), 0);
  EXPECT_LT(milliseconds_of("1"), kHourMs);
}

}  // namespace
}  // namespace gpuyard::driver
