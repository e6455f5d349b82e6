#include "gpu/driver/execute_command.h"

#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "gpu/device/fake_backend.h"

namespace gpuyard::driver {
namespace {

using fakes::FakeWrite;
using Writes = std::vector<FakeWrite>;

class ExecuteCommand : public ::testing::Test {
 protected:
  CommandReply execute(Command command) {
    return driver::execute_command(*backend_, {7, id_, std::move(command), "", BootClock::now()});
  }

  FakeFleet fleet_ = FakeFleet::with_healthy_gpus(2, 1'000);
  std::unique_ptr<Backend> backend_ = fleet_.backend();
  DeviceId id_ = fleet_.inventory().devices[1].id;
};

TEST_F(ExecuteCommand, ApplyReadsValueBeforeAndAfter) {
  RecordProperty("contract", "B2 B3 B4");
  const CommandReply reply = execute(Apply{power_limit(250'000)});
  EXPECT_EQ(reply.id, 7U);
  EXPECT_EQ(reply.device, id_);
  EXPECT_FALSE(reply.failure);
  EXPECT_TRUE(reply.called);
  EXPECT_EQ(reply.before->now, (SettingValue{300'000, 300'000}));
  EXPECT_EQ(reply.after->now, (SettingValue{250'000, 250'000}));
  EXPECT_LE(reply.began, reply.done);
  EXPECT_EQ(fleet_.writes(), (Writes{{1, power_limit(250'000)}}));
}

TEST_F(ExecuteCommand, ReadSettingDoesNotWrite) {
  const CommandReply reply = execute(ReadSetting{SettingKind::power_limit});
  EXPECT_EQ(reply.before->allowed, (SettingValue{100'000, 400'000}));
  EXPECT_FALSE(reply.called);
  EXPECT_TRUE(fleet_.writes().empty());
}

TEST_F(ExecuteCommand, OutOfRangeIsRefusedBeforeDriverCall) {
  RecordProperty("contract", "B15");
  const CommandReply reply = execute(Apply{power_limit(900'000)});
  EXPECT_EQ(reply.failure->code, Errc::invalid);
  EXPECT_EQ(reply.failure->message,
            "900 W is out of range: this GPU's power limit may be 100 W to 400 W");
  EXPECT_FALSE(reply.called);
  EXPECT_TRUE(fleet_.writes().empty());
}

TEST_F(ExecuteCommand, ValueOutsideChangedRangeIsInvalid) {
  RecordProperty("contract", "B15");
  fleet_.set_setting(1, SettingKind::power_limit,
                     {SettingValue{300'000, 300'000}, {}, SettingValue{280'000, 320'000}, {}});
  EXPECT_EQ(execute(Apply{power_limit(250'000)}).failure->code, Errc::invalid);
}

TEST_F(ExecuteCommand, MissingPrivilegeRefusesWritesBeforeDriverCall) {
  RecordProperty("contract", "E15");
  fleet_.deny_control(Error{Errc::denied, "needs CAP_SYS_ADMIN"});
  for (const Command& command :
       {Command(Apply{power_limit(250'000)}), Command(ClearEcc{EccCounter::lifetime})}) {
    const CommandReply reply = execute(command);
    EXPECT_EQ(*reply.failure, (Error{Errc::denied, "needs CAP_SYS_ADMIN"}));
    EXPECT_FALSE(reply.called);
  }
  EXPECT_TRUE(fleet_.writes().empty());
  EXPECT_FALSE(execute(ReadSetting{SettingKind::ecc}).failure) << "looking needs none";
}

TEST_F(ExecuteCommand, UnsupportedSettingIsRefusedBeforeDriverCall) {
  fleet_.set_unsupported(1, SettingKind::memory_clocks);
  const CommandReply reply = execute(Apply{memory_clocks(1593, 2619)});
  EXPECT_EQ(reply.failure->code, Errc::unsupported);
  EXPECT_FALSE(reply.called);
}

TEST_F(ExecuteCommand, UnexpectedCurrentValueIsConflict) {
  const std::vector<SettingValue> ours = {{300'000, 300'000}, {280'000, 280'000}};
  EXPECT_FALSE(execute(Apply{power_limit(250'000), ours}).failure);
  const CommandReply drifted = execute(Apply{power_limit(300'000), ours});
  EXPECT_EQ(drifted.failure->code, Errc::conflict);
  EXPECT_EQ(
      drifted.failure->message,
      "the power limit is 250 W, which is not the expected value; it was changed outside gpuyard");
  EXPECT_EQ(drifted.before->now, (SettingValue{250'000, 250'000}));
  EXPECT_FALSE(drifted.called);
  EXPECT_EQ(fleet_.writes().size(), 1U);
}

TEST_F(ExecuteCommand, UnreadableSettingSkipsExpectedValueCheck) {
  const CommandReply reply = execute(Apply{gpu_clocks(1200, 1500), {{1, 1}}});
  EXPECT_FALSE(reply.failure);
  EXPECT_TRUE(reply.called);
  EXPECT_FALSE(reply.after->now);
}

TEST_F(ExecuteCommand, TheDriversRefusalPassesUnchanged) {
  RecordProperty("contract", "B17");
  for (const Errc code : {Errc::denied, Errc::invalid, Errc::unsupported, Errc::device_lost,
                          Errc::conflict, Errc::internal}) {
    const Error why{code, "the driver's words"};
    fleet_.fail_setting_writes(1, SettingKind::power_limit, why);
    const CommandReply reply = execute(Apply{power_limit(250'000)});
    EXPECT_EQ(*reply.failure, why);
    EXPECT_TRUE(reply.called);
    EXPECT_FALSE(reply.after);
  }
}

TEST_F(ExecuteCommand, ErrorsAreClearedAndEnergyIsRead) {
  RecordProperty("contract", "B3 B15 E14");
  fleet_.set_number(1, Metric::energy_total, 987'654);
  EXPECT_EQ(execute(ReadEnergy{}).energy_mj, 987'654);
  EXPECT_FALSE(execute(ClearEcc{EccCounter::since_load}).failure);
  EXPECT_EQ(fleet_.writes(), (Writes{{1, EccCounter::since_load}}));
}

TEST_F(ExecuteCommand, LostGpuIsReportedAsLost) {
  RecordProperty("contract", "B17");
  fleet_.remove_gpu(1);
  EXPECT_EQ(execute(Apply{power_limit(250'000)}).failure->code, Errc::device_lost);
  EXPECT_EQ(execute(ReadEnergy{}).failure->code, Errc::device_lost);
}

}  // namespace

namespace {

using namespace std::chrono_literals;
using Lines = std::vector<std::string>;

constexpr TimePoint kReceived{100s};

Lines logged(Command command, std::optional<Error> failure = {}, bool called = true,
             std::string request_id = "") {
  const CapturedLog captured;
  const CommandRequest request{1, "GPU-a", std::move(command), std::move(request_id), kReceived};
  CommandReply reply;
  reply.failure = std::move(failure);
  reply.called = called;
  reply.began = kReceived + 250us;
  reply.done = kReceived + 1500us;
  log_command(3, request, reply);
  return CapturedLog::lines();
}

// Returns the line without its fields.
std::string text(const Lines& lines) {
  return lines.size() == 1 ? lines[0].substr(0, lines[0].find(" [gpu=")) : "";
}

TEST(LogCommand, EveryCommandHasItsTwoTexts) {
  RecordProperty("contract", "B16");
  struct Row {
    Command command;
    std::string done;
    std::string failed;
  };
  const Row rows[] = {
      {Apply{persistence(true)}, "Persistence mode enabled", "Cannot enable persistence mode"},
      {Apply{persistence(false)}, "Persistence mode disabled", "Cannot disable persistence mode"},
      {Apply{power_limit(250'999)}, "Power limit set to 250 W", "Cannot set power limit to 250 W"},
      {Apply{gpu_clocks(1200, 1500)}, "GPU frequency set to [1200, 1500] MHz",
       "Cannot set GPU frequency to [1200, 1500] MHz"},
      {Apply{unlocked(SettingKind::gpu_clocks)}, "GPU locked clocks reset",
       "Cannot reset GPU locked clocks"},
      {Apply{memory_clocks(1593, 2619)}, "Memory locked clocks set to [1593, 2619] MHz",
       "Cannot set memory locked clocks to [1593, 2619] MHz"},
      {Apply{unlocked(SettingKind::memory_clocks)}, "Memory locked clocks reset",
       "Cannot reset memory locked clocks"},
      {ReadEnergy{}, "Total energy consumption read", "Cannot read total energy consumption"},
      {Apply{compute_mode(3)}, "Compute mode set to exclusive process",
       "Cannot set compute mode to exclusive process"},
      {Apply{ecc(false)}, "ECC mode disabled", "Cannot disable ECC mode"},
      {ClearEcc{EccCounter::lifetime}, "ECC error counters cleared",
       "Cannot clear ECC error counters"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(text(logged(row.command)), "INFO " + row.done);
    EXPECT_EQ(text(logged(row.command, Error{Errc::denied, "why"})), "WARNING " + row.failed);
  }
}

TEST(LogCommand, TheFieldsFollowTheText) {
  RecordProperty("contract", "B16 B4");
  EXPECT_EQ(logged(Apply{power_limit(300'000)}, {}, true, "req-7"),
            (Lines{"INFO Power limit set to 300 W [gpu=3 time_to_command_done=1.500ms "
                   "overhead=0.250ms request_id=req-7]"}));
  EXPECT_EQ(logged(ReadEnergy{}, Error{Errc::device_lost, "GPU is lost"}),
            (Lines{"WARNING Cannot read total energy consumption [gpu=3 "
                   "time_to_command_done=1.500ms overhead=0.250ms]: GPU is lost"}));
}

TEST(LogCommand, CommandWithoutDriverCallIsNotLogged) {
  RecordProperty("contract", "B15 B16");
  EXPECT_EQ(logged(Apply{power_limit(1)}, Error{Errc::invalid, "why"}, false), Lines{});
  EXPECT_EQ(logged(ReadSetting{SettingKind::power_limit}, {}, false), Lines{});
}

TEST(LogCommand, ARequestIdCannotBreakTheLine) {
  const Lines lines = logged(ReadEnergy{}, {}, true, "a\nb c" + std::string(1'000, 'x'));
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].find('\n'), std::string::npos);
  EXPECT_NE(lines[0].find("request_id=a?b?cx"), std::string::npos);
  EXPECT_LT(lines[0].size(), 300U);
}

}  // namespace
}  // namespace gpuyard::driver
