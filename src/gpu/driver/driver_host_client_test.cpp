#include "gpu/driver/driver_host_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "base/helper_socket.h"
#include "base/manual_loop_for_tests.h"
#include "gpu/device/error.h"
#include "gpu/driver/setter_record.h"

namespace gpuyard::driver {
namespace {

Hello hello_with_gpus(std::uint32_t count) {
  Inventory fleet;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string id = "GPU-" + std::to_string(i);
    fleet.devices.push_back({id, i, id, "", "H100", {}});
  }
  return {fleet, Errc::internal, ""};
}

class CapturingListener final : public DriverHostListener {
 public:
  void on_inventory(const Inventory& fleet) override { fleets.push_back(fleet); }
  void on_no_driver(const Error& error) override { errors.push_back(error); }
  void on_replies(const ReadReplies& all) override {
    replies.insert(replies.end(), all.begin(), all.end());
  }
  void on_event(const DeviceEvent& event) override { events.push_back(event); }
  void on_command_reply(const CommandReply& reply) override { commands.push_back(reply); }
  void on_host_down(const std::string& why) override { downs.push_back(why); }

  std::vector<Inventory> fleets;
  std::vector<Error> errors;
  std::vector<ReadReply> replies;
  std::vector<DeviceEvent> events;
  std::vector<CommandReply> commands;
  std::vector<std::string> downs;
};

// The test plays the driver-host at the other end of a real socket pair.
class DriverHostClientTest : public ::testing::Test {
 protected:
  Result<DriverHostProcess> spawn() {
    ++spawned_;
    if (refuse_to_spawn_) return Error{Errc::internal, "no more processes"};
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      return Error{Errc::internal, "socketpair"};
    }
    host_.reset(ends[1]);
    fd_ = ends[0];
    return DriverHostProcess{-1, {}, UniqueFd(ends[0])};
  }
  void send(const DriverHostMessage& message) {
    ASSERT_TRUE(send_message(host_.get(), message, Wait::yes).ok());
    loop_.make_readable(fd_);
  }
  void end_host() {
    host_.reset();
    loop_.make_readable(fd_);
  }

  ManualLoop loop_;
  CapturingListener listener_;
  UniqueFd host_;
  int fd_ = -1;
  int spawned_ = 0;
  bool refuse_to_spawn_ = false;
  DriverHostClient client_{loop_, [this] { return spawn(); }, listener_};
};

TEST_F(DriverHostClientTest, HelloPublishesInventory) {
  client_.start();
  send(hello_with_gpus(2));
  ASSERT_EQ(listener_.fleets.size(), 1U);
  EXPECT_EQ(listener_.fleets[0].devices.size(), 2U);
}

TEST_F(DriverHostClientTest, ReadBeforeHelloIsRefused) {
  client_.start();
  EXPECT_FALSE(client_.read({{1, "GPU-0", {Probe::power}}}));
  send(hello_with_gpus(1));
  EXPECT_TRUE(client_.read({{1, "GPU-0", {Probe::power}}}));
}

TEST_F(DriverHostClientTest, ReadsAndRepliesAreForwarded) {
  client_.start();
  send(hello_with_gpus(1));
  ASSERT_TRUE(client_.read({{9, "GPU-0", {Probe::power}}}));
  const auto asked = receive_request(host_.get(), Wait::no);
  ASSERT_TRUE(asked.ok());
  EXPECT_EQ(std::get<ReadRequests>(*asked).at(0).id, 9U);
  send(ReadReplies{{9, "GPU-0", {}}});
  ASSERT_EQ(listener_.replies.size(), 1U);
  EXPECT_EQ(listener_.replies[0].id, 9U);
}

TEST_F(DriverHostClientTest, EventsAreForwardedAfterHello) {
  client_.start();
  send(DeviceEvent{"GPU-0", EventKind::xid});
  EXPECT_TRUE(listener_.events.empty());
  send(hello_with_gpus(1));
  send(DeviceEvent{"GPU-0", EventKind::unavailable});
  ASSERT_EQ(listener_.events.size(), 1U);
  EXPECT_EQ(listener_.events[0].kind, EventKind::unavailable);
}

TEST_F(DriverHostClientTest, ExitedHostIsReportedAndRestarted) {
  client_.start();
  send(hello_with_gpus(1));
  end_host();
  EXPECT_EQ(listener_.downs, std::vector<std::string>{"driver-host exited; starting another"});
  EXPECT_FALSE(client_.read({{1, "GPU-0", {Probe::power}}}));
  loop_.advance(DriverHostClient::kMinRestartDelay);
  EXPECT_EQ(spawned_, 2);
  send(hello_with_gpus(1));
  EXPECT_EQ(listener_.fleets.size(), 2U);
}

TEST_F(DriverHostClientTest, RepeatedExitBacksOffToMaxDelay) {
  client_.start();
  for (int i = 0; i < 20; ++i) {
    end_host();
    loop_.advance(DriverHostClient::kMaxRestartDelay);
  }
  const int before = spawned_;
  end_host();
  loop_.advance(DriverHostClient::kMaxRestartDelay - std::chrono::milliseconds(1));
  EXPECT_EQ(spawned_, before);
  loop_.advance(std::chrono::milliseconds(1));
  EXPECT_EQ(spawned_, before + 1);
}

TEST_F(DriverHostClientTest, HostWithoutHelloIsReplacedAfterTimeout) {
  client_.start();
  loop_.advance(DriverHostClient::kHelloTimeout);
  EXPECT_EQ(listener_.downs, std::vector<std::string>{
                                 "the driver did not initialise within 15 s; starting another"});
}

TEST_F(DriverHostClientTest, MissingDriverIsRetriedLater) {
  client_.start();
  const Error why = init_error("Driver Not Loaded");
  send(Hello{std::nullopt, why.code, why.message});
  EXPECT_EQ(listener_.errors, std::vector<Error>{why});
  loop_.advance(DriverHostClient::kMaxRestartDelay);
  EXPECT_EQ(spawned_, 2);
  send(hello_with_gpus(1));
  EXPECT_EQ(listener_.fleets.size(), 1U);
}

TEST_F(DriverHostClientTest, RepeatedCrashAfterHelloBacksOff) {
  client_.start();
  for (int i = 0; i < 20; ++i) {
    send(hello_with_gpus(1));
    end_host();
    loop_.advance(DriverHostClient::kMaxRestartDelay);
  }
  const int before = spawned_;
  send(hello_with_gpus(1));
  end_host();
  loop_.advance(DriverHostClient::kMaxRestartDelay - std::chrono::milliseconds(1));
  EXPECT_EQ(spawned_, before);
}

TEST_F(DriverHostClientTest, LongRunningHostIsReplacedQuickly) {
  client_.start();
  for (int i = 0; i < 10; ++i) {
    end_host();
    loop_.advance(DriverHostClient::kMaxRestartDelay);
  }
  send(hello_with_gpus(1));
  loop_.advance(std::chrono::minutes(1));
  const int before = spawned_;
  end_host();
  loop_.advance(DriverHostClient::kMinRestartDelay);
  EXPECT_EQ(spawned_, before + 1);
}

TEST_F(DriverHostClientTest, UnresponsiveHostIsReplaced) {
  client_.start();
  send(hello_with_gpus(2));
  ASSERT_TRUE(client_.read({{1, "GPU-0", {Probe::power}}}));
  loop_.advance(DriverHostClient::kSilenceTimeout + DriverHostClient::kSilenceTimeout / 6);
  EXPECT_EQ(listener_.downs,
            std::vector<std::string>{"driver-host has not responded for 30 s; starting another"});
}

TEST_F(DriverHostClientTest, IdleHostIsNotReplaced) {
  client_.start();
  send(hello_with_gpus(2));
  loop_.advance(std::chrono::minutes(10));
  EXPECT_TRUE(listener_.downs.empty());
}

TEST_F(DriverHostClientTest, StuckGpuDoesNotReplaceHost) {
  client_.start();
  send(hello_with_gpus(2));
  ASSERT_TRUE(client_.read({{1, "GPU-0", {Probe::power}}}));  // never answered
  for (std::uint64_t id = 2; id < 100; ++id) {
    ASSERT_TRUE(client_.read({{id, "GPU-1", {Probe::power}}}));
    send(ReadReplies{{id, "GPU-1", {}}});
    loop_.advance(std::chrono::seconds(1));
  }
  EXPECT_TRUE(listener_.downs.empty());
}

TEST_F(DriverHostClientTest, CommandAndReplyAreForwardedAfterHello) {
  client_.start();
  const CommandRequest request{3, "GPU-0", Apply{power_limit(250'000)}, "r1", loop_.now()};
  EXPECT_FALSE(client_.send_command(request)) << "before hello";
  send(hello_with_gpus(1));
  ASSERT_TRUE(client_.send_command(request));
  const auto received = receive_request(host_.get(), Wait::no);
  ASSERT_TRUE(received.ok());
  EXPECT_EQ(std::get<CommandRequest>(*received).request_id, "r1");
  CommandReply reply;
  reply.id = 3;
  send(reply);
  ASSERT_EQ(listener_.commands.size(), 1U);
  EXPECT_EQ(listener_.commands[0].id, 3U);
}

TEST_F(DriverHostClientTest, LongCommandIsNoSilence) {
  client_.start();
  send(hello_with_gpus(1));
  ASSERT_TRUE(client_.send_command({3, "GPU-0", ReadEnergy{}, "", loop_.now()}));
  loop_.advance(std::chrono::minutes(10));
  EXPECT_TRUE(listener_.downs.empty());
}

TEST_F(DriverHostClientTest, UnansweredReadsReplaceHostDespiteCommandReplies) {
  client_.start();
  send(hello_with_gpus(1));
  ASSERT_TRUE(client_.read({{1, "GPU-0", {Probe::power}}}));
  for (int i = 0; i < 36; ++i) {
    loop_.advance(std::chrono::seconds(1));
    if (listener_.downs.empty()) send(CommandReply{});
  }
  EXPECT_EQ(listener_.downs.size(), 1U);
}

TEST_F(DriverHostClientTest, PausedHostStaysDownUntilResume) {
  client_.start();
  send(hello_with_gpus(1));
  std::vector<Result<void>> ended;
  client_.pause([&](Result<void> result) { ended.push_back(std::move(result)); });
  EXPECT_TRUE(ended.empty()) << "told later, not at once";
  EXPECT_EQ(listener_.downs.size(), 1U) << "answers under way are lost";
  EXPECT_FALSE(client_.send_command({1, "GPU-0", ReadEnergy{}, "", loop_.now()}));
  loop_.advance(std::chrono::minutes(10));
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_TRUE(ended[0].ok());
  EXPECT_EQ(spawned_, 1);
  client_.resume();
  client_.resume();
  EXPECT_EQ(spawned_, 2);
  send(hello_with_gpus(1));
  EXPECT_EQ(listener_.fleets.size(), 2U);
}

TEST_F(DriverHostClientTest, PauseSuppressesPendingRestart) {
  client_.start();
  end_host();
  client_.pause([](const Result<void>&) {});
  loop_.advance(std::chrono::minutes(1));
  EXPECT_EQ(spawned_, 1);
}

TEST_F(DriverHostClientTest, EarlyResumeFailsPauseAsUnavailable) {
  client_.start();
  std::vector<Result<void>> ended;
  client_.pause([&](Result<void> result) { ended.push_back(std::move(result)); });
  client_.resume();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].error().code, Errc::unavailable);
  loop_.advance(std::chrono::minutes(1));
  EXPECT_EQ(ended.size(), 1U);
}

// A child of the test that ends on request, or never.
class HostClientProcessTest : public DriverHostClientTest {
 protected:
  Result<DriverHostProcess> spawn_child() {
    auto process = spawn();
    if (!process) return process;
    process->pid = ::fork();
    if (process->pid == 0) {
      for (;;) ::pause();
    }
    process->pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, process->pid, 0)));
    pidfd_ = process->pidfd.get();
    return process;
  }
  int pidfd_ = -1;
  DriverHostClient client_with_child_{loop_, [this] { return spawn_child(); }, listener_};
};

TEST_F(HostClientProcessTest, PauseSucceedsWhenProcessHasExited) {
  client_with_child_.start();
  std::vector<Result<void>> ended;
  client_with_child_.pause([&](Result<void> result) { ended.push_back(std::move(result)); });
  pollfd gone{pidfd_, POLLIN, 0};
  if (::poll(&gone, 1, 30'000) == 1) loop_.make_readable(pidfd_);
  loop_.run_posted();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_TRUE(ended[0].ok());
}

TEST_F(HostClientProcessTest, PauseTimesOutForSurvivingProcess) {
  client_with_child_.start();
  std::vector<Result<void>> ended;
  // A process that ended before the wait began proves nothing, so the test tries another one.
  for (int i = 0; i < 100 && (ended.empty() || ended[0].ok()); ++i) {
    if (i > 0) client_with_child_.resume();
    ended.clear();
    client_with_child_.pause([&](Result<void> result) { ended.push_back(std::move(result)); });
    loop_.advance(DriverHostClient::kExitTimeout);  // no one reports that it is gone
  }
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].error().code, Errc::timed_out);
  loop_.make_readable(pidfd_);
  EXPECT_EQ(ended.size(), 1U);
}

TEST_F(DriverHostClientTest, GarbageFromHostEndsHost) {
  client_.start();
  send(hello_with_gpus(1));
  ASSERT_GT(::send(host_.get(), "\xff\xff\xff", 3, 0), 0);
  loop_.make_readable(fd_);
  EXPECT_EQ(listener_.downs,
            std::vector<std::string>{"driver message not understood; starting another"});
}

TEST_F(DriverHostClientTest, FailedStartIsRetried) {
  refuse_to_spawn_ = true;
  client_.start();
  EXPECT_EQ(listener_.downs, std::vector<std::string>{"no more processes; retrying"});
  refuse_to_spawn_ = false;
  loop_.advance(DriverHostClient::kMaxRestartDelay);
  send(hello_with_gpus(1));
  EXPECT_EQ(listener_.fleets.size(), 1U);
}

TEST_F(DriverHostClientTest, FloodIsReadInBatches) {
  client_.start();
  send(hello_with_gpus(1));
  std::size_t sent = 0;
  while (send_message(host_.get(), ReadReplies{{sent, "GPU-0", {}}}, Wait::no).ok()) ++sent;
  ASSERT_GT(sent, 64U);
  loop_.make_readable(fd_);
  EXPECT_EQ(listener_.replies.size(), 64U);
  while (listener_.replies.size() < sent) loop_.make_readable(fd_);
  EXPECT_EQ(listener_.replies.back().id, sent - 1);
}

// The same with a setter at the other end.
class SetterClientTest : public DriverHostClientTest {
 protected:
  void send_hello(const std::string& version = "1.2.3") {
    Hello hello = hello_with_gpus(1);
    hello.version = version;
    auto pair = make_socket_pair();
    ASSERT_TRUE(pair.ok());
    gpu_ = std::move(pair->ours);
    const std::array<int, 2> descriptors = {host_.get(), pair->theirs.get()};
    ASSERT_TRUE(send_message(host_.get(), DriverHostMessage(hello), descriptors, Wait::yes).ok());
    loop_.make_readable(fd_);
  }
  static SetterRecord receive_setter_record(const UniqueFd& socket) {
    const auto record = receive_record(socket.get(), Wait::no);
    EXPECT_TRUE(record.ok());
    return record ? *record : SetterRecord();
  }

  UniqueFd gpu_;  // the setter's end of the socket of its GPU

  DriverHostClient setter_{loop_, [this] { return spawn(); }, listener_, {"setter", true, "1.2.3"}};
};

TEST_F(SetterClientTest, ChangeIsSentAsRecordWithoutRequestId) {
  setter_.start();
  send_hello();
  EXPECT_EQ(receive_setter_record(host_).action, SetterRecord::Action::ping);
  ASSERT_TRUE(setter_.send_command({7, "GPU-0", Apply{power_limit(250'000)}, "r1", {}}));
  const auto request = request_of(receive_setter_record(gpu_));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->id, 7U);
  EXPECT_EQ(std::get<Apply>(request->command).setting, power_limit(250'000));
  EXPECT_EQ(request->request_id, "") << "no text of a client is passed on";
  EXPECT_FALSE(setter_.send_command({8, "GPU-0", ReadSetting{}, "", {}}))
      << "a setter does not read";
  EXPECT_FALSE(setter_.send_command({9, "GPU-1", Apply{power_limit(250'000)}, "", {}}));
}

TEST_F(SetterClientTest, ASetterOfAnotherVersionIsNotUsed) {
  setter_.start();
  send_hello("1.2.4");
  EXPECT_TRUE(listener_.fleets.empty());
  ASSERT_EQ(listener_.downs.size(), 1U);
  EXPECT_EQ(
      listener_.downs[0],
      "the setter is of version 1.2.4, and this daemon is of version 1.2.3; starting another");
}

TEST_F(SetterClientTest, ASetterThatAnswersNoPingIsAbandoned) {
  setter_.start();
  send_hello();
  loop_.advance(DriverHostClient::kSilenceTimeout / 2);
  send(Pong{});
  loop_.advance(DriverHostClient::kSilenceTimeout / 2);
  EXPECT_TRUE(listener_.downs.empty());
  loop_.advance(DriverHostClient::kSilenceTimeout * 2);
  ASSERT_FALSE(listener_.downs.empty());
  EXPECT_EQ(listener_.downs[0], "setter has not responded for 30 s; starting another");
}

TEST_F(SetterClientTest, ReceivedHandleSignalsForeignSetterExit) {
  setter_.start();
  std::array<int, 2> handle{};  // readable as a handle is when its process ends
  ASSERT_EQ(::pipe(handle.data()), 0);
  const UniqueFd writes(handle[1]);
  {
    const UniqueFd reads(handle[0]);
    Hello hello = hello_with_gpus(1);
    hello.version = "1.2.3";
    ASSERT_TRUE(send_message(host_.get(), DriverHostMessage(hello),
                             std::array{reads.get(), writes.get()}, Wait::yes)
                    .ok());
  }
  loop_.make_readable(fd_);
  ASSERT_EQ(listener_.fleets.size(), 1U);
  int ended = 0;
  setter_.pause([&](const Result<void>& result) { ended += result.ok() ? 1 : 0; });
  loop_.run_posted();
  EXPECT_EQ(ended, 0);
  for (int fd = 3; fd < 1024 && ended == 0; ++fd) loop_.make_readable(fd);
  EXPECT_EQ(ended, 1);
}

TEST_F(SetterClientTest, SetterWithMissingSocketsIsRejected) {
  setter_.start();
  Hello hello = hello_with_gpus(2);
  hello.version = "1.2.3";
  const std::array<int, 2> of_one_gpu = {host_.get(), host_.get()};
  ASSERT_TRUE(send_message(host_.get(), DriverHostMessage(hello), of_one_gpu, Wait::yes).ok());
  loop_.make_readable(fd_);
  EXPECT_TRUE(listener_.fleets.empty());
  ASSERT_EQ(listener_.downs.size(), 1U);
  EXPECT_EQ(listener_.downs[0], "the setter's sockets did not all arrive; starting another");
}

TEST_F(SetterClientTest, AHostThatComesLaterCanBeHurried) {
  refuse_to_spawn_ = true;
  setter_.start();
  EXPECT_FALSE(setter_.is_available_soon());
  refuse_to_spawn_ = false;
  setter_.start_now();
  EXPECT_EQ(spawned_, 2);
  EXPECT_TRUE(setter_.is_available_soon());
  setter_.start_now();
  EXPECT_EQ(spawned_, 2);
}

}  // namespace
}  // namespace gpuyard::driver
