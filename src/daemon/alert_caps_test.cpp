#include "daemon/alert_caps.h"

#include <gtest/gtest.h>

#include "core/andon/alert_service_fixture_for_tests.h"
#include "core/control/control_fixture_for_tests.h"

namespace gpuyard::daemon {
namespace {

andon::Rule capping(double watts) {
  andon::Rule rule = andon::hot_rule();
  rule.cap_w = watts;
  return rule;
}

// A GPU that takes 100 W to 700 W, and one rule that caps it while it is hot.
class AlertCapsTest : public ::testing::Test {
 protected:
  AlertCapsTest() {
    daemon_.start_driver_host();
    board_.start();
    daemon_.settle();
    snapshot_.devices.emplace_back().info = andon::gpu_info(0);
  }

  void stay(double celsius, int seconds) {
    for (int i = 0; i < seconds; ++i) {
      daemon_.pass(std::chrono::seconds(1));
      board_.tick(andon::at_temperature(celsius));
      caps_.update(snapshot_);
      daemon_.settle();
    }
  }
  std::int64_t limit() { return world_.power("GPU-0").highest; }

  control::ControlFixture world_ = control::ControlFixture::with_gpus(1);
  control::Daemon daemon_{world_};
  andon::FakeAlertStorage disk_{daemon_.loop};
  andon::FakeAlertNotifier messenger_;
  andon::AlertService board_{daemon_.loop, disk_, messenger_, {capping(300)}};
  AlertCaps caps_{daemon_.loop, daemon_.control(), board_};
  Snapshot snapshot_;
};

TEST_F(AlertCapsTest, FiringAlertCapsLimitUntilResolved) {
  stay(85, 10);
  EXPECT_EQ(limit(), 700'000);
  stay(85, 2);
  EXPECT_EQ(limit(), 300'000);
  stay(60, 22);
  EXPECT_EQ(limit(), 700'000);
}

TEST_F(AlertCapsTest, NewCapAppliesAtOnceDespiteEarlierRefusal) {
  board_.replace({capping(50)});
  stay(85, 200);
  EXPECT_EQ(limit(), 700'000);
  board_.replace({capping(400)});
  stay(85, 2);
  EXPECT_EQ(limit(), 400'000);
}

TEST_F(AlertCapsTest, CapIsLiftedAtOnceDespiteEarlierRefusal) {
  stay(85, 12);
  board_.replace({capping(50)});
  stay(85, 200);
  EXPECT_EQ(limit(), 300'000);
  stay(60, 22);
  EXPECT_EQ(limit(), 700'000);
}

}  // namespace
}  // namespace gpuyard::daemon
