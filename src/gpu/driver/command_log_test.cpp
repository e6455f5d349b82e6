#include "driver/command_log.h"

#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"

namespace gpuyard::driver {
namespace {

using namespace std::chrono_literals;
using Lines = std::vector<std::string>;

constexpr TimePoint kReceived{100s};

Lines logged(Command command, std::optional<CommandFailure> failure = {}, bool called = true,
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

// Without the fields.
std::string text(const Lines& lines) {
  return lines.size() == 1 ? lines[0].substr(0, lines[0].find(" [gpu=")) : "";
}

TEST(CommandLog, EveryCommandHasItsTwoTexts) {
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
    EXPECT_EQ(text(logged(row.command, CommandFailure{Errc::denied, "why"})),
              "WARNING " + row.failed);
  }
}

TEST(CommandLog, TheFieldsFollowTheText) {
  RecordProperty("contract", "B16 B4");
  EXPECT_EQ(logged(Apply{power_limit(300'000)}, {}, true, "req-7"),
            (Lines{"INFO Power limit set to 300 W [gpu=3 time_to_command_done=1.500ms "
                   "overhead=0.250ms request_id=req-7]"}));
  EXPECT_EQ(logged(ReadEnergy{}, CommandFailure{Errc::device_lost, "GPU is lost"}),
            (Lines{"WARNING Cannot read total energy consumption [gpu=3 "
                   "time_to_command_done=1.500ms overhead=0.250ms]: GPU is lost"}));
}

TEST(CommandLog, WhatWasRefusedBeforeTheDriverWasAskedHasNoLine) {
  RecordProperty("contract", "B15 B16");
  EXPECT_EQ(logged(Apply{power_limit(1)}, CommandFailure{Errc::invalid, "why"}, false), Lines{});
  EXPECT_EQ(logged(Look{SettingKind::power_limit}, {}, false), Lines{});
}

TEST(CommandLog, ARequestIdCannotBreakTheLine) {
  const Lines lines = logged(ReadEnergy{}, {}, true, "a\nb c" + std::string(1'000, 'x'));
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].find('\n'), std::string::npos);
  EXPECT_NE(lines[0].find("request_id=a?b?cx"), std::string::npos);
  EXPECT_LT(lines[0].size(), 300U);
}

}  // namespace
}  // namespace gpuyard::driver
