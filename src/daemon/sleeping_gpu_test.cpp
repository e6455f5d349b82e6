// The alerts of a laptop whose GPU sleeps and wakes all day.
#include <gtest/gtest.h>

#include "core/andon/facts.h"
#include "core/andon/rule_engine.h"
#include "core/andon/rule_reader.h"
#include "gpu/device/fitness.h"
#include "gpu/telemetry/telemetry_for_tests.h"

namespace gpuyard::daemon {
namespace {

using std::chrono::seconds;

class LaptopAlertsTest : public telemetry::LaptopTest {
 protected:
  LaptopAlertsTest() {
    queried_at_ = loop_.now();
    telemetry_.set_listener([this](const telemetry::SnapshotPtr& snapshot) { judge(*snapshot); });
  }
  void judge(const Snapshot& snapshot) {
    const auto facts = facts_.collect(snapshot, {}, snapshot.taken);
    for (const auto& change : engine_.tick(facts, snapshot.taken, snapshot.wall)) {
      ADD_FAILURE() << change.alert.rule << ": " << change.alert.message;
    }
    EXPECT_FALSE(is_sick(snapshot.devices[0], snapshot.taken));
    const bool asleep = asleep_since(snapshot.devices[0]).has_value();
    falls_ += asleep && !was_asleep_ ? 1 : 0;
    was_asleep_ = asleep;
  }

  andon::FactCollector facts_;
  andon::RuleEngine engine_{andon::built_in_rules()};
  bool was_asleep_ = false;
  int falls_ = 0;
};

TEST_F(LaptopAlertsTest, HundredSleepsAndWakeUpsFireNoAlert) {
  for (int day = 0; day < 100; ++day) {
    queried_at_ = loop_.now();  // something has woken it
    pass(seconds(20 + day));
  }
  EXPECT_EQ(falls_, 100);
}

}  // namespace
}  // namespace gpuyard::daemon
