#include "cli/control/control_log.h"

#include <gtest/gtest.h>

namespace gpuyard::cli {
namespace {

protocol::AuditLine line() {
  protocol::AuditLine line;
  line.number = 1;
  line.at = "2026-01-31T12:00:03.250Z";
  line.by = "uid 1000";
  line.action = "set power_limit to 300 W";
  line.index = 2;
  line.before = "700 W";
  line.after = "300 W";
  line.outcome = "applied";
  line.seconds = 0.0123;
  return line;
}

TEST(AuditTable, SaysWhoDidWhatAndWhatCameOfIt) {
  protocol::AuditLine refused = line();
  refused.index.reset();
  refused.before.reset();
  refused.after.reset();
  refused.outcome = "failed";
  refused.error = "not allowed";
  refused.forced = true;
  refused.seconds = 2.345;
  EXPECT_EQ(audit_table({1, {line(), refused}}, {}),
            "AT (UTC)             BY        GPU  WHAT                      FROM   TO      TOOK  "
            "OUTCOME\n"
            "2026-01-31 12:00:03  uid 1000    2  set power limit to 300 W  700 W  300 W  12 ms  "
            "applied\n"
            "2026-01-31 12:00:03  uid 1000    -  set power limit to 300 W  -      -      2.3 s  "
            "failed, forced: not allowed\n");
}

TEST(OperationsTable, SaysHowFarEachHasCome) {
  protocol::Operation operation;
  operation.state = protocol::OperationState::running;
  operation.action = "reset";
  operation.asked_by = "uid 0";
  operation.asked_at = "2026-01-31T12:00:03.250Z";
  operation.change.operation = "17";
  operation.change.index = 2;
  operation.change.outcome = protocol::ChangeOutcome::queued;
  EXPECT_EQ(operations_table({1, {operation}}, {}),
            "ID  STATE    AT (UTC)             BY     GPU  WHAT   FROM  TO  TOOK  OUTCOME\n"
            "17  running  2026-01-31 12:00:03  uid 0    2  reset  -     -      -  -\n");
}

}  // namespace
}  // namespace gpuyard::cli
