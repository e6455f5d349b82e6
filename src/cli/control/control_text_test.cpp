#include "cli/control/control_text.h"

#include <gtest/gtest.h>

#include "base/result.h"
#include "cli/read/reader_for_tests.h"

namespace gpuyard::cli {
namespace {

using protocol::ChangeOutcome;
using protocol::ChangeResult;

ChangeResult change(ChangeOutcome outcome) {
  ChangeResult change;
  change.operation = "17";
  change.index = 0;
  change.uuid = "GPU-0";
  change.setting = "power_limit";
  change.outcome = outcome;
  change.before = protocol::view_of(power_limit(700'000));
  change.after = protocol::view_of(power_limit(300'000));
  change.owner = "uid 1000";
  return change;
}

std::string result_text(const ChangeResult& change) {
  return result_line(change, "settings", kMe);
}

TEST(ResultLine, AppliedChangeShowsPreviousValueOrUnchanged) {
  EXPECT_EQ(result_text(change(ChangeOutcome::applied)), "GPU 0: power limit 300 W (was 700 W)");
  ChangeResult same = change(ChangeOutcome::applied);
  same.before = same.after;
  EXPECT_EQ(result_text(same), "GPU 0: power limit 300 W (unchanged)");
}

TEST(ResultLine, SaysUntilWhen) {
  ChangeResult lasting = change(ChangeOutcome::applied);
  lasting.until = *from_rfc3339("2031-01-01T00:00:00Z");
  EXPECT_TRUE(result_text(lasting).starts_with("GPU 0: power limit 300 W (was 700 W), until 20"))
      << result_text(lasting);
}

TEST(ResultLine, OtherOwnerOfValueIsNamed) {
  ChangeResult held = change(ChangeOutcome::held);
  held.owner = "uid 1001";
  EXPECT_EQ(
      result_text(held),
      "GPU 0: power limit stays at 300 W, set by uid 1001; your setting is on hold behind it");
  ChangeResult others = change(ChangeOutcome::applied);
  others.owner = "zeus:1001";
  EXPECT_EQ(result_text(others), "GPU 0: power limit 300 W (was 700 W), set by zeus:1001");
}

TEST(ResultLine, RestoredSettingShowsValueAndRemainingOwner) {
  ChangeResult restored = change(ChangeOutcome::restored);
  restored.owner.reset();
  EXPECT_EQ(result_text(restored), "GPU 0: power limit 300 W (was 700 W), restored");
  ChangeResult mode = restored;
  mode.setting = "ecc";
  mode.before = protocol::view_of(ecc(false));
  mode.after = protocol::view_of(ecc(true));
  EXPECT_EQ(result_text(mode),
            "GPU 0: ECC mode on (was off), restored at the next reset or reboot");
  restored.owner = "uid 1001";
  EXPECT_EQ(result_text(restored), "GPU 0: power limit 300 W (was 700 W), set by uid 1001");
}

TEST(ResultLine, AssumedPendingAndDriftedChangesAreExplained) {
  ChangeResult locked = change(ChangeOutcome::assumed);
  locked.setting = "gpu_clocks";
  locked.before.reset();
  locked.after = protocol::view_of(gpu_clocks(1200, 1500));
  EXPECT_EQ(result_text(locked),
            "GPU 0: GPU clocks [1200, 1500] MHz; accepted by the driver, which does not report the "
            "value in effect");
  ChangeResult mode = change(ChangeOutcome::pending_reboot);
  mode.setting = "ecc";
  mode.before = protocol::view_of(ecc(true));
  mode.after = protocol::view_of(ecc(false));
  EXPECT_EQ(result_text(mode),
            "GPU 0: ECC mode off (was on); takes effect at the next reset or reboot");
  EXPECT_EQ(result_text(change(ChangeOutcome::drifted)),
            "GPU 0: power limit left at 300 W: changed outside gpuyard in the meantime");
}

TEST(ResultLine, QueuedChangeNamesOperation) {
  EXPECT_EQ(result_text(change(ChangeOutcome::queued)),
            "GPU 0: power limit: queued; check the result with `gpuyard operations 17`");
}

TEST(ResultLine, GpuWithoutIndexIsNamedByUuid) {
  ChangeResult gone = change(ChangeOutcome::failed);
  gone.index.reset();
  gone.error = {"device_lost", "GPU is lost"};
  EXPECT_EQ(result_text(gone), "GPU-0: power limit: GPU is lost");
}

TEST(ResultLine, MultilineErrorBecomesOneLine) {
  ChangeResult reset = change(ChangeOutcome::failed);
  reset.setting.reset();
  reset.error = {"internal", "it said: no\nsuch GPU\n"};
  EXPECT_EQ(result_line(reset, "reset", kMe), "GPU 0: reset: it said: no such GPU");
}

TEST(PlanLine, HasTheGpusName) {
  EXPECT_EQ(plan_line(change(ChangeOutcome::planned), "", "H100", kMe),
            "GPU 0 H100: power limit 700 W -> 300 W");
  ChangeResult same = change(ChangeOutcome::planned);
  same.after = same.before;
  EXPECT_EQ(plan_line(same, "", "", kMe), "GPU 0: power limit stays 700 W");
}

TEST(PlanLine, ResetWithoutSettingShowsAction) {
  ChangeResult reset = change(ChangeOutcome::planned);
  reset.setting.reset();
  reset.before.reset();
  reset.after.reset();
  reset.owner.reset();
  EXPECT_EQ(plan_line(reset, "reset", "H100", kMe), "GPU 0 H100: reset");
}

TEST(ActionText, HasWordsForNames) {
  EXPECT_EQ(action_text("set gpu_clocks to [1200, 1500] MHz"),
            "set GPU clocks to [1200, 1500] MHz");
  EXPECT_EQ(action_text("restore ecc"), "restore ECC mode");
  EXPECT_EQ(action_text("clear volatile ECC counters"), "clear volatile ECC counters");
  EXPECT_EQ(action_text(""), "");
}

protocol::ChangeResults failed_with(const std::vector<const char*>& codes) {
  protocol::ChangeResults changes;
  changes.changes.push_back(change(ChangeOutcome::applied));
  for (const char* code : codes) {
    changes.changes.push_back(change(ChangeOutcome::failed));
    changes.changes.back().error = {code, "why"};
  }
  return changes;
}

TEST(ExitCode, IsThatOfTheWorstError) {
  EXPECT_EQ(worst_exit_code(failed_with({})), 0);
  EXPECT_EQ(worst_exit_code(failed_with({"unsupported"})), 3);
  EXPECT_EQ(worst_exit_code(failed_with({"invalid", "conflict"})), 7);
  EXPECT_EQ(worst_exit_code(failed_with({"conflict", "denied", "unsupported"})), 4);
  EXPECT_EQ(worst_exit_code(failed_with({"denied", "device_lost"})), 5);
  EXPECT_EQ(worst_exit_code(failed_with({"device_lost", "internal"})), 1);
  EXPECT_EQ(worst_exit_code(failed_with({"a code of tomorrow"})), 1);
}

// A rolled-back change failed because of another GPU, whose error decides the exit code.
TEST(ExitCode, RolledBackChangeIsIgnored) {
  auto changes = failed_with({"unsupported"});
  changes.changes.front().outcome = ChangeOutcome::rolled_back;
  EXPECT_EQ(worst_exit_code(changes), 3);
}

}  // namespace
}  // namespace gpuyard::cli
