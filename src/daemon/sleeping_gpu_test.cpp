// The alerts of a laptop whose GPU sleeps and wakes all day.
#include <memory>

#include <gtest/gtest.h>

#include "core/andon/facts.h"
#include "core/andon/rule_engine.h"
#include "core/andon/rule_reader.h"
#include "gpu/device/fitness.h"
#include "gpu/telemetry/telemetry_for_tests.h"

namespace gpuyard::daemon {
namespace {

using std::chrono::seconds;

// A kernel that suspends a GPU three seconds after its last query, or its last use.
class LaptopAlertsTest : public telemetry::TelemetryTest {
 protected:
  class Kernel final : public telemetry::RuntimePowerSource {
   public:
    explicit Kernel(const LaptopAlertsTest& test) : test_(test) {}
    std::optional<Duration> suspend_delay(const std::string&) override { return seconds(3); }
    bool is_suspended(const std::string&) override {
      return test_.loop_.now() - test_.used_at_ >= seconds(3);
    }

   private:
    const LaptopAlertsTest& test_;
  };

  bool read(const std::vector<ReadRequest>& requests) override {
    used_at_ = loop_.now();
    return TelemetryTest::read(requests);
  }
  void SetUp() override {
    used_at_ = loop_.now();
    value_ = 0;  // every reading, the utilisation among them
    processes_.set(ProcessList{loop_.now(), std::vector<GpuProcess>{}});
    telemetry_.set_runtime_power(std::make_unique<Kernel>(*this),
                                 [](const DeviceId&) { return false; });
    telemetry_.set_listener([this](const telemetry::SnapshotPtr& snapshot) { judge(*snapshot); });
    start(1);
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

  TimePoint used_at_{};
  andon::FactCollector facts_;
  andon::RuleEngine engine_{andon::built_in_rules()};
  bool was_asleep_ = false;
  int falls_ = 0;
};

TEST_F(LaptopAlertsTest, HundredSleepsAndWakeUpsFireNoAlert) {
  for (int day = 0; day < 100; ++day) {
    used_at_ = loop_.now();  // something has woken it
    pass(seconds(20 + day));
  }
  EXPECT_EQ(falls_, 100);
}

}  // namespace
}  // namespace gpuyard::daemon
