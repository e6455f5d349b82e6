#include "zeus/yard_for_tests.h"

namespace gpuyard::zeus {
namespace {

class GpuReads : public FacadeTest {};

TEST_F(GpuReads, AreMapsByIndex) {
  EXPECT_EQ(got("/gpu/get_cumulative_energy"),
            R"({"0":{"energy_mj":5000},"1":{"energy_mj":5001},"2":{"energy_mj":5002}})");
  EXPECT_EQ(got("/gpu/get_power_limit?gpu_ids=1"), R"({"1":{"power_limit_mw":300001}})");
  EXPECT_EQ(got("/gpu/get_power_limit_constraints?gpu_ids=0"),
            R"({"0":{"min_power_limit_mw":100000,"max_power_limit_mw":700000}})");
  gpus_.set(Metric::persistence_mode, 0);
  EXPECT_EQ(got("/gpu/get_persistence_mode?gpu_ids=0,1"),
            R"({"0":{"enabled":false},"1":{"enabled":true}})");
}

TEST_F(GpuReads, PowerHasItsTime) {
  EXPECT_EQ(got("/gpu/get_power?gpu_ids=2%2C0"),
            R"({"timestamp_ms":1700000000000,"power_mw":{"0":75000,"2":75002}})");
}

TEST_F(GpuReads, PowerIsTheAverageWhereThereIsNothingBetter) {
  gpus_.lack(0, Metric::power_draw_instant, {MissingReason::not_supported, ""});
  EXPECT_THAT(got("/gpu/get_power?gpu_ids=0"), testing::HasSubstr(R"({"0":70000})"));
}

TEST_F(GpuReads, AskTheDriverForNoMoreThanTheyTell) {
  get("/gpu/get_cumulative_energy");
  EXPECT_EQ(gpus_.asked, ProbeSet{Probe::energy});
  get("/gpu/get_power_limit");
  EXPECT_EQ(gpus_.asked, ProbeSet{Probe::power_limit});
}

TEST_F(GpuReads, WhatAGpuDoesNotTellIsAnErrorOfItsOwnAndNeverZero) {
  gpus_.lack(1, Metric::energy_total, {MissingReason::not_supported, ""});
  const auto answer = get("/gpu/get_cumulative_energy");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(text(answer), R"({"errors":{"1":"not supported by this GPU or driver"}})");
}

TEST_F(GpuReads, TheWorstOfSeveralErrorsIsTheAnswersCode) {
  gpus_.lack(0, Metric::energy_total, {MissingReason::not_supported, ""});
  gpus_.lack(1, Metric::energy_total, {MissingReason::no_permission, "no"});
  EXPECT_EQ(get("/gpu/get_cumulative_energy").status, 403);
  gpus_.lack(2, Metric::energy_total, {MissingReason::timed_out, "late"});
  const auto answer = get("/gpu/get_cumulative_energy");
  EXPECT_EQ(answer.status, 500);
  EXPECT_THAT(text(answer), testing::HasSubstr(R"("1":"no","2":"late"}})"));
}

TEST_F(GpuReads, ALostGpuCostsThoseNothingWhoDoNotNameIt) {
  gpus_.snapshot.devices[1].condition = DeviceCondition::unavailable;
  gpus_.snapshot.devices[1].sample = {};
  EXPECT_EQ(got("/gpu/get_cumulative_energy"),
            R"({"0":{"energy_mj":5000},"2":{"energy_mj":5002}})");
  EXPECT_EQ(get("/gpu/get_cumulative_energy?gpu_ids=1").status, 500);
}

TEST_F(GpuReads, WithoutADriverThereIsAReasonAndNoEmptyMap) {
  gpus_.snapshot = {};
  gpus_.snapshot.driver.why = "Driver Not Loaded";
  const auto answer = get("/gpu/get_power");
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(text(answer), R"({"error":"Driver Not Loaded"})");
}

}  // namespace
}  // namespace gpuyard::zeus
