#include "gpu/driver/driver_host.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "gpu/device/error.h"
#include "gpu/device/fake_backend.h"
#include "gpu/driver/captured_replies_for_tests.h"
#include "gpu/driver/command_workers.h"
#include "gpu/driver/message.h"

namespace gpuyard::driver {
namespace {

// A driver-host in a thread of the test, with the daemon's end of its socket.
class DriverHostTest : public ::testing::Test {
 protected:
  void serve(MakeBackend make_backend) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    timeval patience{30, 0};
    ::setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    daemon_.reset(ends[0]);
    host_ = std::jthread(
        [fd = ends[1], make = std::move(make_backend)] { serve_driver_host(UniqueFd(fd), make); });
  }
  void serve(const FakeFleet& fleet) {
    serve([fleet]() -> Result<std::unique_ptr<Backend>> { return fleet.backend(); });
  }
  template <class Message>
  Message receive() {
    auto message = receive_message(daemon_.get(), Wait::yes);
    EXPECT_TRUE(message.ok());
    return message ? std::get<Message>(*message) : Message{};
  }
  ReadReply receive_reply() {
    const auto replies = receive<ReadReplies>();
    EXPECT_EQ(replies.size(), 1U);
    return replies.empty() ? ReadReply{} : replies.front();
  }

  std::jthread host_;
  UniqueFd daemon_;  // destroyed first, which ends the host
};

TEST_F(DriverHostTest, HelloWithInventoryIsSentFirst) {
  const auto fleet = FakeFleet::with_healthy_gpus(3, 1000);
  serve(fleet);
  EXPECT_EQ(receive<Hello>().fleet, fleet.inventory());
}

TEST_F(DriverHostTest, MissingDriverIsReportedBeforeExit) {
  serve(FakeFleet::without_driver(init_error("Driver Not Loaded")));
  const auto hello = receive<Hello>();
  EXPECT_FALSE(hello.fleet);
  EXPECT_EQ(hello.error, "failed to initialise NVML: Driver Not Loaded");
  EXPECT_EQ(receive_message(daemon_.get(), Wait::yes).error().code, Errc::unavailable);
}

TEST_F(DriverHostTest, UnloadableLibraryIsReportedInHello) {
  serve([]() -> Result<std::unique_ptr<Backend>> { return init_error("no library"); });
  EXPECT_EQ(receive<Hello>().error, "failed to initialise NVML: no library");
}

TEST_F(DriverHostTest, EachReadOfOneMessageIsAnswered) {
  const auto fleet = FakeFleet::with_healthy_gpus(3, 1000);
  serve(fleet);
  receive<Hello>();
  ReadRequests requests;
  for (const DeviceInfo& gpu : fleet.inventory().devices)
    requests.push_back({requests.size() + 1, gpu.id, {Probe::temperature}});
  requests.push_back({9, "GPU-nobody", {Probe::temperature}});
  ASSERT_TRUE(send_message(daemon_.get(), requests, Wait::yes).ok());
  // In one message, unless this machine is too busy: ReplyCollector.
  std::set<std::uint64_t> answered;
  while (answered.size() < requests.size()) {
    for (const ReadReply& reply : receive<ReadReplies>()) answered.insert(reply.id);
  }
  EXPECT_EQ(answered, (std::set<std::uint64_t>{1, 2, 3, 9}));
}

TEST_F(DriverHostTest, BlockedGpuDoesNotBlockOtherReplies) {
  auto fleet = FakeFleet::with_healthy_gpus(3, 1000);
  serve(fleet);
  receive<Hello>();
  fleet.block(1);
  ReadRequests requests;
  for (const DeviceInfo& gpu : fleet.inventory().devices)
    requests.push_back({requests.size() + 1, gpu.id, {Probe::temperature}});
  ASSERT_TRUE(send_message(daemon_.get(), requests, Wait::yes).ok());
  std::set<std::uint64_t> answered;
  while (answered.size() < 2) {
    for (const ReadReply& reply : receive<ReadReplies>()) answered.insert(reply.id);
  }
  EXPECT_EQ(answered, (std::set<std::uint64_t>{1, 3}));
  fleet.unblock(1);
  EXPECT_EQ(receive_reply().id, 2U);
}

TEST_F(DriverHostTest, ReadOfUnknownGpuIsAnsweredWithoutReading) {
  serve(FakeFleet::with_healthy_gpus(1, 1000));
  receive<Hello>();
  const ReadRequests request{{6, "GPU-nobody", {Probe::temperature}}};
  ASSERT_TRUE(send_message(daemon_.get(), request, Wait::yes).ok());
  const ReadReply reply = receive_reply();
  EXPECT_EQ(reply.id, 6U);
  EXPECT_EQ(reply.sample.number(Metric::temperature_core), nullptr);
}

TEST_F(DriverHostTest, UnopenedGpuDoesNotDelayHelloForOthers) {
  auto fleet = FakeFleet::with_healthy_gpus(3, 1000);
  fleet.block(1);
  serve(fleet);
  const auto first = receive<Hello>();
  ASSERT_EQ(first.fleet->devices.size(), 3U);
  EXPECT_TRUE(first.fleet->devices[1].fault);
  EXPECT_FALSE(first.fleet->devices[2].fault);
  fleet.unblock(1);
  EXPECT_EQ(receive<Hello>().fleet, fleet.inventory()) << "told again once it has opened";
}

TEST_F(DriverHostTest, DriverGoneReplyIsSentBeforeExit) {
  auto fleet = FakeFleet::with_healthy_gpus(1, 1000);
  fleet.set_missing(0, Metric::temperature_core,
                    {MissingReason::driver_gone, "Driver/library version mismatch"});
  serve(fleet);
  receive<Hello>();
  const ReadRequests request{{5, fleet.inventory().devices[0].id, {Probe::temperature}}};
  ASSERT_TRUE(send_message(daemon_.get(), request, Wait::yes).ok());
  EXPECT_EQ(receive_reply().id, 5U);
  EXPECT_EQ(receive_message(daemon_.get(), Wait::yes).error().code, Errc::unavailable);
}

TEST_F(DriverHostTest, DeviceEventIsForwarded) {
  auto fleet = FakeFleet::with_healthy_gpus(2, 1000);
  serve(fleet);
  receive<Hello>();
  fleet.raise_event(1, EventKind::xid, 79);
  const auto event = receive<DeviceEvent>();
  EXPECT_EQ(event.device, fleet.inventory().devices[1].id);
  EXPECT_EQ(event.xid, 79U);
}

TEST_F(DriverHostTest, ReadCommandIsExecutedAndAnswered) {
  RecordProperty("contract", "B3 B4");
  const auto fleet = FakeFleet::with_healthy_gpus(2, 1000);
  serve(fleet);
  receive<Hello>();
  const CommandRequest request{8, fleet.inventory().devices[1].id,
                               ReadSetting{SettingKind::power_limit}, "r1", BootClock::now()};
  ASSERT_TRUE(send_message(daemon_.get(), request, Wait::yes).ok());
  const auto reply = receive<CommandReply>();
  EXPECT_EQ(reply.id, 8U);
  EXPECT_FALSE(reply.failure);
  EXPECT_EQ(reply.before->now, (SettingValue{300'000, 300'000}));
}

TEST_F(DriverHostTest, AChangeIsRefused) {
  const auto fleet = FakeFleet::with_healthy_gpus(1, 1000);
  serve(fleet);
  receive<Hello>();
  for (const Command& command : {Command(Apply{power_limit(250'000)}), Command(ClearEcc{})}) {
    const CommandRequest request{8, fleet.inventory().devices[0].id, command, "", BootClock::now()};
    ASSERT_TRUE(send_message(daemon_.get(), request, Wait::yes).ok());
    EXPECT_EQ(receive<CommandReply>().failure->code, Errc::denied);
  }
  EXPECT_TRUE(fleet.writes().empty());
}

TEST_F(DriverHostTest, CommandForUnknownGpuIsRefused) {
  serve(FakeFleet::with_healthy_gpus(1, 1000));
  receive<Hello>();
  const CommandRequest request{9, "GPU-nobody", ReadEnergy{}, "", BootClock::now()};
  ASSERT_TRUE(send_message(daemon_.get(), request, Wait::yes).ok());
  const auto reply = receive<CommandReply>();
  EXPECT_EQ(reply.id, 9U);
  EXPECT_EQ(*reply.failure, (Error{Errc::not_found, "no GPU GPU-nobody is open"}));
  EXPECT_FALSE(reply.called);
}

TEST_F(DriverHostTest, DaemonExitBeforeReplyIsLogged) {
  RecordProperty("contract", "B14");
  const CapturedLog log;
  auto fleet = FakeFleet::with_healthy_gpus(1, 1000);
  serve(fleet);
  receive<Hello>();
  fleet.block(0);
  const CommandRequest request{1, fleet.inventory().devices[0].id, ReadEnergy{}, "",
                               BootClock::now()};
  ASSERT_TRUE(send_message(daemon_.get(), request, Wait::yes).ok());
  daemon_.reset();
  fleet.unblock(0);
  host_.join();
  EXPECT_EQ(std::ranges::count(log.lines(), "ERROR Failed to send response to caller"), 1);
}

TEST_F(DriverHostTest, GarbageFromDaemonEndsHost) {
  serve(FakeFleet::with_healthy_gpus(1, 1000));
  receive<Hello>();
  ASSERT_GT(::send(daemon_.get(), "\xff\xff", 2, 0), 0);
  EXPECT_EQ(receive_message(daemon_.get(), Wait::yes).error().code, Errc::unavailable);
}

}  // namespace
}  // namespace gpuyard::driver
