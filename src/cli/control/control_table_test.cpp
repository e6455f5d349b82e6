#include "cli/control/control_table.h"

#include <gtest/gtest.h>

#include "cli/read/reader_for_tests.h"

namespace gpuyard::cli {
namespace {

protocol::ManagedSetting power(const protocol::SettingStatus standing) {
  protocol::ManagedSetting setting;
  setting.setting = "power_limit";
  setting.standing = standing;
  setting.now = protocol::view_of(power_limit(300'000));
  setting.lowest = protocol::view_of(power_limit(200'000));
  setting.highest = protocol::view_of(power_limit(700'000));
  setting.by_default = protocol::view_of(power_limit(700'000));
  return setting;
}

protocol::Management management(std::vector<protocol::ManagedSetting> settings) {
  protocol::Management management;
  management.gpus.push_back({0, "GPU-0", "NVIDIA H100", std::move(settings)});
  return management;
}

TEST(ControlTable, RowHasValueRangeDefaultAndClaims) {
  auto wanted = power(protocol::SettingStatus::applied);
  wanted.claims = {{"uid 1000", protocol::view_of(power_limit(300'000)), {}, {}},
                   {"uid 1001", protocol::view_of(power_limit(400'000)), {}, {}}};
  EXPECT_EQ(control_table(management({wanted}), kMe, {}),
            "GPU  NAME  NOW    RANGE           DEFAULT  REQUESTED          REMARKS\n"
            "  0  H100  300 W  200 W to 700 W  700 W    300 W by you\n"
            "                                           400 W by uid 1001\n");
}

TEST(ControlTable, DriftedOwedAndPendingStatusHaveRemarks) {
  for (const auto& [standing, words] :
       {std::pair{protocol::SettingStatus::drifted, "changed outside gpuyard"},
        std::pair{protocol::SettingStatus::owed, "not applied yet"},
        std::pair{protocol::SettingStatus::pending_reboot,
                  "takes effect at the next reset or reboot"}}) {
    EXPECT_NE(control_table(management({power(standing)}), kMe, {}).str().find(words),
              std::string::npos);
  }
}

TEST(ControlTable, UnreadableSettingsShareOneReason) {
  protocol::ManagedSetting clocks;
  clocks.setting = "gpu_clocks";
  clocks.why = "not reported";
  protocol::ManagedSetting memory = clocks;
  memory.setting = "memory_clocks";
  const std::string table = control_table(management({clocks, memory}), kMe, {});
  EXPECT_EQ(table,
            "GPU  NAME  SETTING        NOW  REQUESTED  REMARKS\n"
            "  0  H100  GPU clocks     -    -\n"
            "  0  H100  memory clocks  -    -\n"
            "GPU clocks, memory clocks: not reported\n");
}

TEST(ControlTable, SaysThatGpusAreSimulated) {
  auto simulated = management({power(protocol::SettingStatus::free)});
  simulated.simulated = true;
  EXPECT_TRUE(control_table(simulated, kMe, {}).str().ends_with("\nThese GPUs are simulated.\n"));
}

TEST(KeepOnly, LeavesTheSettingsOfOneVerb) {
  protocol::ManagedSetting tomorrow;
  tomorrow.setting = "a_setting_of_tomorrow";
  auto all = management({power(protocol::SettingStatus::free), tomorrow});
  keep_only(all, {SettingKind::power_limit});
  ASSERT_EQ(all.gpus[0].settings.size(), 1U);
  EXPECT_EQ(all.gpus[0].settings[0].setting, "power_limit");
}

}  // namespace

namespace {

protocol::AuditLine line() {
  protocol::AuditLine line;
  line.number = 1;
  line.at = *from_rfc3339("2026-01-31T12:00:03.250Z");
  line.by = "uid 1000";
  line.action = "set power_limit to 300 W";
  line.index = 2;
  line.before = "700 W";
  line.after = "300 W";
  line.outcome = "applied";
  line.took = std::chrono::microseconds(12'300);
  return line;
}

TEST(AuditTable, RowHasRequesterActionAndOutcome) {
  protocol::AuditLine refused = line();
  refused.index.reset();
  refused.before.reset();
  refused.after.reset();
  refused.outcome = "failed";
  refused.error = "not allowed";
  refused.forced = true;
  refused.took = std::chrono::milliseconds(2345);
  EXPECT_EQ(audit_table({1, {line(), refused}}, {}),
            "TIME (UTC)           BY        GPU  ACTION                    FROM   TO      TOOK  "
            "OUTCOME\n"
            "2026-01-31 12:00:03  uid 1000    2  set power limit to 300 W  700 W  300 W  12 ms  "
            "applied\n"
            "2026-01-31 12:00:03  uid 1000    -  set power limit to 300 W  -      -      2.3 s  "
            "failed, forced: not allowed\n");
}

TEST(AuditTable, WithoutEntriesIsASentence) {
  EXPECT_EQ(audit_table({1, {}}, {}), "No changes or refused requests recorded.\n");
}

TEST(OperationsTable, WithoutOperationsIsASentence) {
  EXPECT_EQ(operations_table({1, {}}, {}),
            "No changes are queued, running or recently finished.\n");
}

TEST(OperationsTable, SaysHowFarEachHasCome) {
  protocol::Operation operation;
  operation.state = protocol::OperationState::running;
  operation.action = "reset";
  operation.asked_by = "uid 0";
  operation.asked_at = *from_rfc3339("2026-01-31T12:00:03.250Z");
  operation.change.operation = "17";
  operation.change.index = 2;
  operation.change.outcome = protocol::ChangeOutcome::queued;
  EXPECT_EQ(operations_table({1, {operation}}, {}),
            "ID  STATE    TIME (UTC)           BY     GPU  ACTION  FROM  TO  TOOK  OUTCOME\n"
            "17  running  2026-01-31 12:00:03  uid 0    2  reset   -     -      -  -\n");
}

TEST(LogTables, WithoutARowAreASentence) {
  EXPECT_EQ(audit_table({}, {}), "No changes or refused requests recorded.\n");
  EXPECT_EQ(operations_table({}, {}), "No changes are queued, running or recently finished.\n");
}

}  // namespace
}  // namespace gpuyard::cli
