#include "faces/protocol/leases.h"

#include <gtest/gtest.h>

#include "base/json_writer.h"

namespace gpuyard::protocol {
namespace {

using std::chrono::days;
using std::chrono::milliseconds;
using usage::UsageGrouping;
using usage::UsageTotal;

const usage::UsageQuery kByUser{UsageGrouping::user, usage::Day(days(20'000)), false};

UsageTotal an_hour(const std::string& key, std::optional<std::uint32_t> uid) {
  return {key, uid, 3600, 3600, 360'000'000, 0, 62.5, 4096, 2};
}

TEST(Usage, RowHasUserGpuHoursAndKilowattHours) {
  const auto usage =
      usage_of({{an_hour("1000", 1000), an_hour("1001", 1001)}, 3, {}}, kByUser, {{1000, "alice"}});
  EXPECT_EQ(usage.since, "2024-10-04T00:00:00.000Z");
  EXPECT_EQ(usage.by, "user");
  EXPECT_EQ(usage.rows_left_out, 3);
  ASSERT_EQ(usage.rows.size(), 2U);
  EXPECT_EQ(usage.rows[0].key, "alice");
  EXPECT_EQ(usage.rows[0].uid, 1000U);
  EXPECT_EQ(usage.rows[0].gpu_hours, 1);
  EXPECT_EQ(usage.rows[0].energy_kwh, 0.1);
  EXPECT_EQ(usage.rows[0].energy_unknown_gpu_hours, 0);
  EXPECT_EQ(usage.rows[1].key, "1001") << "whose name is not known";
}

TEST(Usage, PodsAreNoUser) {
  const auto by_user = usage_of({{an_hour("4294967295", lease::kPodsUid)}, 0, {}}, kByUser);
  EXPECT_EQ(by_user.rows[0].key, "(pods)");
  EXPECT_FALSE(by_user.rows[0].uid);
  const usage::UsageQuery by_lease{UsageGrouping::lease, kByUser.since, false};
  const auto leases = usage_of({{an_hour("pod-trainer-1", lease::kPodsUid)}, 0, {}}, by_lease);
  EXPECT_EQ(leases.rows[0].key, "pod-trainer-1");
  EXPECT_FALSE(leases.rows[0].uid);
}

TEST(Usage, UnmeasuredEnergyIsNullNotZero) {
  UsageTotal blind = an_hour("1000", 1000);
  blind.counted_s = 0;
  blind.energy_mj = 0;
  const auto usage = usage_of({{blind}, 0, {}}, kByUser);
  EXPECT_FALSE(usage.rows[0].energy_kwh);
  EXPECT_EQ(usage.rows[0].energy_unknown_gpu_hours, 1);
  usage::LeaseUsage use;
  use.held = use.unknown = milliseconds(1500);
  const std::string text = json::to_json(use);
  EXPECT_NE(text.find(R"("held_s":1.5,"energy_mj":null)"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("idle_s":null,"energy_unknown_s":1.5)"), std::string::npos) << text;
}

TEST(Usage, CsvHasRowPerKeyAndUnleasedRow) {
  UsageTotal blind{"1001", 1001, 1800, 0, 0, 0, {}, {}, 1};
  UsageTotal none = an_hour("", {});
  none.leases = 0;
  none.estimated_mj = 1;
  const auto usage =
      usage_of({{an_hour("1000", 1000), blind}, 0, none}, kByUser, {{1000, "dom,\"alice\""}});
  EXPECT_EQ(csv_of(usage),
            "\"dom,\"\"alice\"\"\",1000,1,0.1,false,62.5,4096,2,0,,,\n"
            "1001,1001,0.5,,false,,,1,0.5,,,\n"
            ",,1,0.1,true,62.5,4096,0,0,,,\n");
}

TEST(Usage, CostFollowsTariffForMeasuredEnergyOnly) {
  UsageTotal blind{"1001", 1001, 1800, 0, 0, 0, {}, {}, 1};
  auto usage = usage_of({{an_hour("1000", 1000), blind}, 0, an_hour("", {})}, kByUser);
  put_estimates(usage, {});
  EXPECT_FALSE(usage.rows[0].estimate) << "without a price there is none";
  put_estimates(usage, {0.25, "EUR", 300});
  ASSERT_TRUE(usage.rows[0].estimate);
  EXPECT_NEAR(*usage.rows[0].estimate->cost, 0.025, 1e-9);
  EXPECT_EQ(usage.rows[0].estimate->currency, "EUR");
  EXPECT_NEAR(*usage.rows[0].estimate->co2_g, 30, 1e-9);
  EXPECT_FALSE(usage.rows[1].estimate) << "its energy is not known";
  EXPECT_EQ(text_of(usage.rows[0].estimate), "about 0.03 EUR, 30 g CO2");
  EXPECT_EQ(text_of(estimate_of({0, "EUR", 300}, 100)), "about 30.0 kg CO2");
  EXPECT_EQ(text_of(std::nullopt), "");
}

}  // namespace
}  // namespace gpuyard::protocol
