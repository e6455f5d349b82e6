#include "faces/zeus/ports_for_tests.h"

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

TEST_F(GpuReads, AveragePowerReplacesUnsupportedInstantPower) {
  gpus_.lack(0, Metric::power_draw_instant, {MissingReason::not_supported, ""});
  EXPECT_THAT(got("/gpu/get_power?gpu_ids=0"), testing::HasSubstr(R"({"0":70000})"));
}

TEST_F(GpuReads, OnlyRequiredProbesAreQueried) {
  get("/gpu/get_cumulative_energy");
  EXPECT_EQ(gpus_.asked, ProbeSet{Probe::energy});
  get("/gpu/get_power_limit");
  EXPECT_EQ(gpus_.asked, ProbeSet{Probe::power_limit});
}

TEST_F(GpuReads, UnsupportedReadingIsErrorPerGpu) {
  gpus_.lack(1, Metric::energy_total, {MissingReason::not_supported, ""});
  const auto answer = get("/gpu/get_cumulative_energy");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(text(answer), R"({"errors":{"1":"not supported by this GPU or driver"}})");
}

TEST_F(GpuReads, AnswerHasWorstErrorCode) {
  gpus_.lack(0, Metric::energy_total, {MissingReason::not_supported, ""});
  gpus_.lack(1, Metric::energy_total, {MissingReason::no_permission, "no"});
  EXPECT_EQ(get("/gpu/get_cumulative_energy").status, 403);
  gpus_.lack(2, Metric::energy_total, {MissingReason::timed_out, "late"});
  const auto answer = get("/gpu/get_cumulative_energy");
  EXPECT_EQ(answer.status, 500);
  EXPECT_THAT(text(answer), testing::HasSubstr(R"("1":"no","2":"late"}})"));
}

TEST_F(GpuReads, LostGpuIsOmittedUnlessNamed) {
  gpus_.snapshot.devices[1].condition = DeviceCondition::unavailable;
  gpus_.snapshot.devices[1].sample = {};
  EXPECT_EQ(got("/gpu/get_cumulative_energy"),
            R"({"0":{"energy_mj":5000},"2":{"energy_mj":5002}})");
  EXPECT_EQ(get("/gpu/get_cumulative_energy?gpu_ids=1").status, 500);
}

TEST_F(GpuReads, NoDriverIs503WithReason) {
  gpus_.snapshot = {};
  gpus_.snapshot.driver.why = "Driver Not Loaded";
  const auto answer = get("/gpu/get_power");
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(text(answer), R"({"error":"Driver Not Loaded"})");
}

}  // namespace

namespace {

class GpuWrites : public FacadeTest {
 protected:
  const SettingOrder& only() {
    EXPECT_EQ(control_.orders.size(), 1U);
    return control_.orders.at(0);
  }
  void expect_done(const std::string& target) {
    const auto answer = post(target);
    EXPECT_EQ(answer.status, 200) << text(answer);
    EXPECT_EQ(text(answer), "");
    EXPECT_EQ(answer.content_type, "");
  }
};

TEST_F(GpuWrites, APowerLimitIsAnOrderOfItsUser) {
  RecordProperty("contract", "B15");
  loop_.advance(seconds(5));
  expect_done("/gpu/set_power_limit?gpu_ids=2,0,2&power_limit_mw=250000&block=true");
  const SettingOrder& order = only();
  EXPECT_EQ(order.uid, 1000U);
  EXPECT_EQ(order.kind, SettingKind::power_limit);
  EXPECT_EQ(order.setting, power_limit(250'000));
  EXPECT_TRUE(order.wait);
  EXPECT_EQ(order.request, 77U);
  EXPECT_EQ(order.received, loop_.now());
  ASSERT_EQ(order.gpus.size(), 2U);
  EXPECT_EQ(order.gpus[0].id, "GPU-0");
  EXPECT_EQ(order.gpus[1].id, "GPU-2");
}

TEST_F(GpuWrites, EverySettingHasItsOrder) {
  expect_done("/gpu/set_persistence_mode?gpu_ids=0&enabled=false&block=true");
  expect_done(
      "/gpu/set_gpu_locked_clocks?gpu_ids=0&min_clock_mhz=900&max_clock_mhz=1200&block=true");
  expect_done("/gpu/set_mem_locked_clocks?gpu_ids=0&min_clock_mhz=1&max_clock_mhz=2&block=true");
  ASSERT_EQ(control_.orders.size(), 3U);
  EXPECT_EQ(control_.orders[0].setting, persistence(false));
  EXPECT_EQ(control_.orders[1].setting, gpu_clocks(900, 1200));
  EXPECT_EQ(control_.orders[2].setting, memory_clocks(1, 2));
}

TEST_F(GpuWrites, ResetReleasesSettingClaims) {
  expect_done("/gpu/reset_gpu_locked_clocks?gpu_ids=1&block=true");
  expect_done("/gpu/reset_mem_locked_clocks?gpu_ids=1&block=true");
  expect_done("/gpu/reset_locked_clocks?gpu_ids=1&block=true");
  ASSERT_EQ(control_.orders.size(), 4U);
  const std::vector<SettingKind> kinds = {SettingKind::gpu_clocks, SettingKind::memory_clocks,
                                          SettingKind::gpu_clocks, SettingKind::memory_clocks};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    EXPECT_EQ(control_.orders[i].kind, kinds[i]);
    EXPECT_FALSE(control_.orders[i].setting);
  }
}

TEST_F(GpuWrites, NonBlockingWriteDoesNotWait) {
  expect_done("/gpu/set_power_limit?gpu_ids=0&power_limit_mw=250000&block=false");
  EXPECT_FALSE(only().wait);
}

TEST_F(GpuWrites, FailuresAreReportedPerGpuWithWorstStatus) {
  using enum SettingKind;
  control_.refusals[{0, power_limit}] = {Errc::invalid, "100 W to 700 W"};
  control_.refusals[{2, power_limit}] = {Errc::conflict, "zeus:1001 has it"};
  const auto answer = post("/gpu/set_power_limit?gpu_ids=0,1,2&power_limit_mw=1&block=true");
  EXPECT_EQ(answer.status, 403);
  EXPECT_EQ(text(answer), R"({"errors":{"0":"100 W to 700 W","2":"zeus:1001 has it"}})");
}

TEST_F(GpuWrites, EveryKindOfRefusalHasItsCode) {
  const std::map<Errc, int> codes = {
      {Errc::invalid, 400},     {Errc::unsupported, 400}, {Errc::denied, 403},
      {Errc::conflict, 403},    {Errc::busy, 500},        {Errc::unavailable, 500},
      {Errc::device_lost, 500}, {Errc::timed_out, 500},   {Errc::internal, 500}};
  for (const auto& [code, status] : codes) {
    control_.refusals[{0, SettingKind::persistence}] = {code, "why"};
    EXPECT_EQ(post("/gpu/set_persistence_mode?gpu_ids=0&enabled=true&block=true").status, status);
  }
}

TEST_F(GpuWrites, OfBothClocksEitherMayFail) {
  control_.refusals[{0, SettingKind::memory_clocks}] = {Errc::unsupported, "no"};
  const auto answer = post("/gpu/reset_locked_clocks?gpu_ids=0,1&block=true");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(text(answer), R"({"errors":{"0":"no"}})");
  control_.refusals.clear();
  control_.refusals[{1, SettingKind::gpu_clocks}] = {Errc::unsupported, "no"};
  EXPECT_EQ(text(post("/gpu/reset_locked_clocks?gpu_ids=0,1&block=true")),
            R"({"errors":{"1":"no"}})");
}

TEST_F(GpuWrites, WhereControlIsOffTheSwitchIsNamed) {
  control_.on = false;
  const auto answer = post("/gpu/set_power_limit?gpu_ids=0&power_limit_mw=250000&block=true");
  EXPECT_EQ(answer.status, 403);
  EXPECT_EQ(text(answer), R"({"error":"control is off: set [control] enabled = true"})");
  EXPECT_TRUE(control_.orders.empty());
}

TEST_F(GpuWrites, CallersWithoutControlAreDenied) {
  for (const http::Peer& peer : {http::Peer{}, user(control_.stranger)}) {
    peer_ = peer;
    for (const Route& route : routes()) {
      if (route.method != http::Method::post) continue;
      const std::string path(route.path);
      const auto answer = post(path + "?nonsense");
      EXPECT_EQ(answer.status, 403) << path;
      EXPECT_EQ(text(answer), R"({"error":"you may not )" + path + "\"}");
    }
    EXPECT_EQ(get("/gpu/get_power").status, 200);
  }
  EXPECT_TRUE(control_.orders.empty());
}

}  // namespace
}  // namespace gpuyard::zeus
