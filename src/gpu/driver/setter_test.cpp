#include "gpu/driver/setter.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "base/scratch_directory_for_tests.h"
#include "gpu/device/error.h"
#include "gpu/device/fake_backend.h"
#include "gpu/driver/setter_record.h"

namespace gpuyard::driver {
namespace {

// A setter in a thread of the test, with the daemon's end of its socket.
class SetterTest : public ::testing::Test {
 protected:
  void serve(const SetterPolicy& policy = {}) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    timeval patience{30, 0};
    ::setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    daemon_.reset(ends[0]);
    const SetterOptions options{policy, log_, "1.2.3"};
    setter_ = std::jthread([fd = ends[1], fleet = fleet_, options] {
      serve_setter(
          UniqueFd(fd), [fleet]() -> Result<std::unique_ptr<Backend>> { return fleet.backend(); },
          options);
    });
  }
  void end() {
    daemon_.reset();
    setter_.join();
  }
  template <class Message>
  Message receive() {
    std::vector<UniqueFd> descriptors;
    auto message = receive_message(daemon_.get(), Wait::yes, &descriptors);
    EXPECT_TRUE(message.ok());
    if (!descriptors.empty()) descriptors_ = std::move(descriptors);
    return message ? std::get<Message>(*message) : Message{};
  }
  // The first descriptor is that of the process.
  int socket_of(std::uint32_t gpu) const { return descriptors_.at(gpu + 1).get(); }
  void send_request(const CommandRequest& request, std::uint32_t gpu = 0) {
    const auto record = record_of(request);
    ASSERT_TRUE(record.ok());
    ASSERT_TRUE(send_record(socket_of(gpu), *record, Wait::yes).ok());
  }
  CommandReply change(const Setting& setting, bool puts_back = false, std::uint32_t gpu = 0) {
    CommandRequest request{++last_, id(gpu), Apply{setting}, "", BootClock::now()};
    request.puts_back = puts_back;
    send_request(request, gpu);
    auto reply = receive<CommandReply>();
    EXPECT_EQ(reply.id, last_);
    return reply;
  }
  DeviceId id(std::uint32_t gpu) const { return fleet_.inventory().devices[gpu].id; }
  std::vector<ChangeLine> lines(ChangeStep step) const {
    auto read = read_change_log(log_);
    EXPECT_TRUE(read.ok());
    if (!read) return {};
    EXPECT_EQ(read->faults, std::vector<std::string>());
    std::erase_if(read->lines, [&](const ChangeLine& line) { return line.step != step; });
    return read->lines;
  }

  FakeFleet fleet_ = FakeFleet::with_healthy_gpus(2, 1000);  // 300 W of 100 to 400 W
  const ScratchDirectory place_;
  const std::string log_ = place_.in("changes.log");
  std::uint64_t last_ = 0;
  std::jthread setter_;
  std::vector<UniqueFd> descriptors_;  // as they came with the last Hello that had some
  UniqueFd daemon_;                    // destroyed first, which ends the setter
};

TEST_F(SetterTest, HelloCarriesInventoryVersionAndHandle) {
  serve();
  const auto hello = receive<Hello>();
  EXPECT_EQ(hello.fleet, fleet_.inventory());
  EXPECT_EQ(hello.version, "1.2.3");
  EXPECT_EQ(descriptors_.size(), 3U) << "of the process, and of each GPU";
}

TEST_F(SetterTest, AChangeIsMadeAnsweredAndLogged) {
  RecordProperty("contract", "B3 B4 B15");
  serve();
  receive<Hello>();
  const auto reply = change(power_limit(250'000), false, 1);
  EXPECT_FALSE(reply.failure);
  EXPECT_EQ(reply.after->now, (SettingValue{250'000, 250'000}));
  EXPECT_EQ(fleet_.writes(), (std::vector<fakes::FakeWrite>{{1, power_limit(250'000)}}));
  end();
  const auto changes = lines(ChangeStep::change);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].gpu, id(1));
  EXPECT_EQ(changes[0].setting, SettingKind::power_limit);
  EXPECT_EQ(changes[0].before, (SettingValue{300'000, 300'000}));
  EXPECT_EQ(changes[0].value, (SettingValue{250'000, 250'000}));
  const auto done = lines(ChangeStep::done);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].of, changes[0].number);
  EXPECT_EQ(done[0].value, (SettingValue{250'000, 250'000}));
}

TEST_F(SetterTest, DriverRefusalIsLoggedAsFailed) {
  fleet_.fail_setting_writes(0, SettingKind::power_limit, Error{Errc::internal, "no"});
  serve();
  receive<Hello>();
  EXPECT_EQ(change(power_limit(250'000)).failure->message, "no");
  end();
  EXPECT_EQ(lines(ChangeStep::failed).size(), 1U);
}

TEST_F(SetterTest, OneWattBeyondABoundIsRefused) {
  serve({.lowest_mw = 200'000, .highest_mw = 350'000});
  receive<Hello>();
  EXPECT_EQ(change(power_limit(351'000)).failure->message,
            "351 W is above the 350 W that the administrator allows (control.highest_w)");
  EXPECT_EQ(change(power_limit(199'000)).failure->code, Errc::invalid);
  EXPECT_FALSE(change(power_limit(350'000)).failure);
  EXPECT_FALSE(change(power_limit(200'000)).failure);
  EXPECT_EQ(fleet_.writes().size(), 2U);
}

TEST_F(SetterTest, UnequalPairOfAPowerLimitIsRefused) {
  serve({.highest_mw = 250'000});
  receive<Hello>();
  Setting pair = power_limit(400'000);
  pair.value->highest = 200'000;
  EXPECT_EQ(change(pair).failure->code, Errc::invalid);
  EXPECT_EQ(change(pair, true).failure->code, Errc::invalid);
  EXPECT_TRUE(fleet_.writes().empty());
}

TEST_F(SetterTest, UnseenDriverDefaultBeyondBoundIsRefused) {
  serve({.highest_mw = 250'000});
  receive<Hello>();
  EXPECT_EQ(change(power_limit(300'000), true).failure->code, Errc::invalid) << "not in the log";
  EXPECT_FALSE(change(power_limit(200'000)).failure);
  EXPECT_FALSE(change(power_limit(300'000), true).failure);
}

TEST_F(SetterTest, BoundBeyondRangeHasNoEffect) {
  const CapturedLog log;
  serve({.lowest_mw = 50'000, .highest_mw = 900'000});
  receive<Hello>();
  EXPECT_FALSE(change(power_limit(400'000)).failure);
  EXPECT_FALSE(change(power_limit(100'000)).failure);
  end();
  EXPECT_EQ(std::ranges::count(log.lines(),
                               "WARNING GPU 0: control.lowest_w (50 W) and control.highest_w (900 "
                               "W) without effect: the driver allows 100 W to 400 W"),
            1);
}

TEST_F(SetterTest, BoundBelowRangeAllowsNoPowerLimit) {
  const CapturedLog log;
  serve({.highest_mw = 50'000});
  receive<Hello>();
  EXPECT_EQ(change(power_limit(100'000)).failure->code, Errc::invalid);
  EXPECT_TRUE(fleet_.writes().empty());
  end();
  EXPECT_EQ(std::ranges::count(log.lines(),
                               "WARNING GPU 0: no power limit can be set because of "
                               "control.highest_w (50 W): the driver allows 100 W to 400 W"),
            1);
}

TEST_F(SetterTest, EarlierValueIsRestoredBeyondBound) {
  serve({.highest_mw = 250'000});
  receive<Hello>();
  EXPECT_FALSE(change(power_limit(250'000)).failure);
  EXPECT_EQ(change(power_limit(260'000), true).failure->code, Errc::invalid)
      << "the GPU never had it";
  EXPECT_FALSE(change(power_limit(300'000), true).failure);
  EXPECT_EQ(change(power_limit(300'000)).failure->code, Errc::invalid) << "that is a new change";
}

TEST_F(SetterTest, RateLimitIsEnforcedPerGpu) {
  RecordProperty("contract", "B18");
  serve({.changes_a_minute = 3});
  receive<Hello>();
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(change(power_limit(250'000 + i)).failure);
  EXPECT_EQ(change(power_limit(260'000)).failure->code, Errc::busy);
  EXPECT_FALSE(change(power_limit(260'000), false, 1).failure);
  EXPECT_EQ(fleet_.writes().size(), 4U);
}

TEST_F(SetterTest, ANewSetterGoesOnCounting) {
  serve({.changes_a_minute = 2});
  receive<Hello>();
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(change(power_limit(250'000 + i)).failure);
  end();
  serve({.changes_a_minute = 2});
  receive<Hello>();
  EXPECT_EQ(change(power_limit(260'000)).failure->code, Errc::busy);
}

TEST_F(SetterTest, ARestoreBeyondTheRateWaits) {
  serve({.changes_a_minute = 1});
  receive<Hello>();
  EXPECT_FALSE(change(power_limit(250'000)).failure);
  CommandRequest request{++last_, id(0), Apply{power_limit(300'000)}, "", BootClock::now()};
  request.puts_back = true;
  send_request(request);
  EXPECT_FALSE(change(power_limit(260'000), false, 1).failure) << "the other GPU does not wait";
  EXPECT_EQ(fleet_.writes().size(), 2U);
  end();  // not a minute later
  EXPECT_EQ(fleet_.writes().size(), 2U);
}

TEST_F(SetterTest, UnwritableLogAllowsOnlyRestoringPreviousValue) {
  serve();
  receive<Hello>();
  EXPECT_FALSE(change(power_limit(250'000)).failure);
  // A directory in its place cannot be written to, also by root.
  std::filesystem::rename(log_, log_ + ".aside");
  std::filesystem::create_directory(log_);
  const auto refused = change(power_limit(260'000));
  EXPECT_EQ(refused.failure->code, Errc::unavailable);
  EXPECT_NE(refused.failure->message.find("could not be recorded"), std::string::npos);
  EXPECT_EQ(change(power_limit(260'000), true).failure->code, Errc::unavailable);
  EXPECT_FALSE(change(power_limit(300'000), true).failure);
  EXPECT_FALSE(change(unlocked(SettingKind::gpu_clocks), true).failure);
  std::filesystem::remove(log_);
  std::filesystem::rename(log_ + ".aside", log_);
  EXPECT_FALSE(change(power_limit(260'000)).failure);
  const auto missed = lines(ChangeStep::missed);
  ASSERT_EQ(missed.size(), 1U);
  EXPECT_EQ(missed[0].of, 2U);
}

TEST_F(SetterTest, APingIsAnsweredWhileTheDriverHangs) {
  serve();
  receive<Hello>();
  fleet_.block(0);
  send_request({1, id(0), Apply{power_limit(250'000)}, "", BootClock::now()});
  ASSERT_TRUE(send_record(daemon_.get(), SetterRecord(), Wait::yes).ok());
  receive<Pong>();
  fleet_.unblock(0);
}

TEST_F(SetterTest, DaemonExitDropsQueuedChanges) {
  serve();
  receive<Hello>();
  fleet_.block(0);
  for (int i = 0; i < 4; ++i) {
    send_request({++last_, id(0), Apply{power_limit(250'000 + i)}, "", BootClock::now()});
  }
  daemon_.reset();
  fleet_.unblock(0);
  setter_.join();
  EXPECT_LE(fleet_.writes().size(), 1U) << "the one that was inside the driver";
}

TEST_F(SetterTest, InvalidRecordEndsSetter) {
  SetterRecord other;
  other.format_version += 1;
  const SetterRecord ping;
  const auto change = record_of({1, id(0), Apply{power_limit(250'000)}, "", {}});
  ASSERT_TRUE(change.ok());
  struct Case {
    bool on_own_socket;  // of a GPU
    SetterRecord record;
    const char* error;
  };
  for (const auto& [on_own_socket, record, error] :
       {Case{false, other, "the record is not of this version"},
        Case{true, other, "the record is not of this version"},
        Case{true, ping, "the record is not a change of a setting"},
        Case{false, *change, "a change has to come on the socket of its GPU"}}) {
    serve();
    receive<Hello>();
    ASSERT_TRUE(send_record(on_own_socket ? socket_of(1) : daemon_.get(), record, Wait::yes).ok());
    const auto hello = receive<Hello>();
    EXPECT_FALSE(hello.fleet);
    EXPECT_EQ(hello.error, error);
    EXPECT_EQ(receive_message(daemon_.get(), Wait::yes).error().code, Errc::unavailable);
    end();
  }
  EXPECT_TRUE(fleet_.writes().empty());
}

TEST_F(SetterTest, ChangeOnWrongGpuSocketIsRefused) {
  serve();
  receive<Hello>();
  send_request({1, id(1), Apply{power_limit(250'000)}, "", BootClock::now()}, 0);
  EXPECT_EQ(receive<CommandReply>().failure->code, Errc::not_found);
  EXPECT_TRUE(fleet_.writes().empty());
}

TEST_F(SetterTest, RefusedChangeTakesNoResultFromTheLog) {
  serve();
  receive<Hello>();
  fleet_.block(0);
  send_request({1, id(0), Apply{power_limit(250'000)}, "", BootClock::now()}, 0);
  send_request({2, id(0), Apply{power_limit(260'000)}, "", BootClock::now()}, 1);
  EXPECT_EQ(receive<CommandReply>().id, 2U);
  fleet_.unblock(0);
  EXPECT_EQ(receive<CommandReply>().id, 1U);
  end();
  EXPECT_EQ(lines(ChangeStep::change).size(), 1U);
  EXPECT_EQ(lines(ChangeStep::done).size(), 1U);
}

TEST_F(SetterTest, MissingDriverIsReportedBeforeExit) {
  fleet_ = FakeFleet::without_driver(init_error("Driver Not Loaded"));
  serve();
  EXPECT_EQ(receive<Hello>().error, "failed to initialise NVML: Driver Not Loaded");
  EXPECT_EQ(receive_message(daemon_.get(), Wait::yes).error().code, Errc::unavailable);
}

TEST(SetterRecord, EveryChangeSurvivesTheTrip) {
  const Command changes[] = {Apply{gpu_clocks(1200, 1500), {{1, 2}, {3, 4}}},
                             Apply{unlocked(SettingKind::memory_clocks)},
                             Apply{persistence(true)},
                             Apply{compute_mode(3)},
                             Apply{ecc(false)},
                             ClearEcc{EccCounter::lifetime}};
  for (const Command& change : changes) {
    CommandRequest request{7, "GPU-a", change, "", TimePoint(std::chrono::seconds(9)), true};
    const auto record = record_of(request);
    ASSERT_TRUE(record.ok());
    const auto back = request_of(*record);
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(back->id, 7U);
    EXPECT_EQ(back->device, "GPU-a");
    EXPECT_EQ(back->received, request.received);
    EXPECT_TRUE(back->puts_back);
    ASSERT_EQ(back->command.index(), change.index());
    if (const auto* const apply = std::get_if<Apply>(&change)) {
      EXPECT_EQ(std::get<Apply>(back->command).setting, apply->setting);
      EXPECT_EQ(std::get<Apply>(back->command).expected, apply->expected);
    }
  }
}

TEST(SetterRecord, ReadCommandOrInvalidDeviceIsRejected) {
  EXPECT_FALSE(record_of({1, "GPU-a", ReadSetting{}, "", {}}).ok());
  EXPECT_FALSE(record_of({1, "GPU-a", ReadEnergy{}, "", {}}).ok());
  EXPECT_FALSE(record_of({1, "", ClearEcc{}, "", {}}).ok());
  EXPECT_FALSE(record_of({1, std::string(97, 'x'), ClearEcc{}, "", {}}).ok());
}

TEST(SetterRecord, RandomBytesAreAChangeOrRefused) {
  std::mt19937 random(20261126);
  const auto good = record_of({7, "GPU-a", Apply{gpu_clocks(1200, 1500), {{1, 2}}}, "", {}});
  ASSERT_TRUE(good.ok());
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::array<unsigned char, sizeof(SetterRecord)> bytes{};
    std::memcpy(bytes.data(), &*good, bytes.size());
    for (int flips = 0; flips < 3; ++flips) {
      bytes.at(random() % bytes.size()) = static_cast<unsigned char>(random());
    }
    SetterRecord record;
    std::memcpy(&record, bytes.data(), bytes.size());
    const auto request = request_of(record);
    if (!request) continue;
    ++accepted;
    EXPECT_TRUE(is_change(request->command));
    EXPECT_TRUE(record_of(*request).ok());
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace gpuyard::driver
