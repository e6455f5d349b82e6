#include "faces/zeus/facade.h"

#include "faces/zeus/ports_for_tests.h"

namespace gpuyard::zeus {
namespace {

class Discovery : public FacadeTest {};

TEST_F(Discovery, ResponseListsDevicesAndApiGroups) {
  gpus_.lack(2, Metric::energy_total, {MissingReason::not_supported, ""});
  EXPECT_EQ(got("/discover"),
            R"({"gpus":[)"
            R"({"id":0,"name":"NVIDIA H100","pci_address":"0000:01:00.0",)"
            R"("cumulative_energy_available":true,"uuid":"GPU-0"},)"
            R"({"id":1,"name":"NVIDIA H100","pci_address":"0000:02:00.0",)"
            R"("cumulative_energy_available":true,"uuid":"GPU-1"},)"
            R"({"id":2,"name":"NVIDIA H100","pci_address":"0000:03:00.0",)"
            R"("cumulative_energy_available":false,"uuid":"GPU-2"}],)"
            R"("cpus":[{"id":0,"dram_available":true,"name":"package-0"},)"
            R"({"id":1,"dram_available":false,"name":"package-1"}],)"
            R"("enabled_api_groups":["gpu-control","gpu-read","cpu-read"],"auth_required":false,)"
            R"("gpu_ids":[0,1,2],"cpu_ids":[0,1],"dram_available":[true,false],)"
            R"("version":"1.2.3","simulated":false})");
}

TEST_F(Discovery, DisabledGroupsAndLostDevicesAreOmitted) {
  control_.on = false;
  gpus_.snapshot.devices[1].condition = DeviceCondition::unavailable;
  std::filesystem::remove_all(tree_.package(0));
  std::filesystem::remove_all(tree_.package(1));
  const std::string found = got("/discover");
  EXPECT_THAT(found, testing::HasSubstr(R"("enabled_api_groups":["gpu-read"])"));
  EXPECT_THAT(found, testing::HasSubstr(R"("gpu_ids":[0,2],"cpu_ids":[],"dram_available":[])"));
}

TEST_F(Discovery, NoDriverListsOnlyCpus) {
  gpus_.snapshot = {};
  EXPECT_THAT(got("/discover"), testing::HasSubstr(R"({"gpus":[],"cpus":[{"id":0,)"));
}

TEST_F(Discovery, MissingCpusDoNotDelayDiscovery) {
  send(http::Method::get, "/time");
  worker_.full = true;
  send(http::Method::get, "/discover");
  EXPECT_TRUE(answers_.empty());
  loop_.advance(cpu::CpuEnergyMonitor::kReadTimeout);
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_THAT(text(answers_[0]), testing::HasSubstr(R"("cpus":[])"));
}

TEST_F(Discovery, TimeIsReturnedInMilliseconds) {
  EXPECT_EQ(got("/time"), R"({"timestamp_ms":1700000000000})");
}

TEST_F(Discovery, WhoamiWithoutTokensIs404) {
  const auto answer = get("/auth/whoami");
  EXPECT_EQ(answer.status, 404);
  EXPECT_THAT(text(answer), testing::HasSubstr(R"({"error":")"));
}

TEST_F(Discovery, SimulationIsMarkedInEveryAnswer) {
  gpus_.snapshot.driver.info.simulated = true;
  for (const char* target : {"/discover", "/time", "/nowhere", "/gpu/get_power?gpu_ids=9"}) {
    EXPECT_EQ(http::find_header(get(target).headers, "X-Gpuyard-Simulated"), "true") << target;
  }
}

TEST_F(Discovery, ARouteTakesItsOwnMethodAlone) {
  for (const Route& route : routes()) {
    const bool reads = route.method == http::Method::get;
    const auto answer =
        answer_to(reads ? http::Method::post : http::Method::get, std::string(route.path));
    EXPECT_EQ(answer.status, 405) << route.path;
    EXPECT_EQ(http::find_header(answer.headers, "Allow"), reads ? "GET" : "POST");
    EXPECT_THAT(text(answer), testing::HasSubstr(R"({"error":")"));
  }
  EXPECT_TRUE(control_.orders.empty());
}

TEST_F(Discovery, UnknownPathIs404) {
  for (const char* target : {"/", "/gpu", "/gpu/", "/gpu/get_power/", "//gpu/get_power",
                             "/GPU/get_power", "/gpu/set_power_limit/0", "/discover/"}) {
    EXPECT_EQ(get(target).status, 404) << target;
  }
}

}  // namespace
}  // namespace gpuyard::zeus
