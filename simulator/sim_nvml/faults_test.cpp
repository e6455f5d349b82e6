// GPUs and world servers that fail, and the library file itself.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>

#include "sim_nvml/client_for_tests.h"

namespace gpuyard::sim_nvml {
namespace {

using namespace gpuyard::nvml;

using FaultTest = AbiTest;

TEST_F(FaultTest, LostGpuFailsCallsWithoutAffectingNeighbour) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  const DeviceHandle lost = device(1);
  sim::Fault fault;
  fault.lost = 1;
  break_gpu(1, fault);
  unsigned number = 0;
  std::array<char, kNameSize> text{};
  DeviceHandle handle = nullptr;
  EXPECT_EQ(nvmlDeviceGetPowerUsage(lost, &number), kGpuIsLost);
  EXPECT_EQ(nvmlDeviceGetName(lost, text.data(), kNameSize), kGpuIsLost);
  EXPECT_EQ(nvmlDeviceGetMigMode(lost, &number, &number), kGpuIsLost);
  EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(1, &handle), kGpuIsLost);
  EXPECT_EQ(nvmlDeviceGetCount_v2(&number), kSuccess);
  EXPECT_EQ(number, 4U);
  EXPECT_EQ(nvmlDeviceGetPowerUsage(device(0), &number), kSuccess);
}

TEST_F(FaultTest, ACallFaultHitsThatCallOnly) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  break_gpu(0, sim::failing(sim::Call::utilization_rates, kUnknown));
  Utilization utilization;
  unsigned number = 0;
  EXPECT_EQ(nvmlDeviceGetUtilizationRates(device(0), &utilization), kUnknown);
  EXPECT_EQ(nvmlDeviceGetPowerUsage(device(0), &number), kSuccess);
  break_gpu(0, sim::failing(sim::Call::any, kTimeout));
  EXPECT_EQ(nvmlDeviceGetUtilizationRates(device(1), &utilization), kSuccess);
  EXPECT_EQ(nvmlDeviceGetHandleByUUID(world_.gpus[0].identity.uuid, nullptr), kInvalidArgument);
  DeviceHandle handle = nullptr;
  EXPECT_EQ(nvmlDeviceGetHandleByUUID(world_.gpus[0].identity.uuid, &handle), kTimeout);
}

TEST_F(FaultTest, LatencyIsSpentInTheCallerBeforeTheAnswer) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  break_gpu(0, sim::failing(sim::Call::power_usage, kSuccess, 50));
  unsigned number = 0;
  const TimePoint before = BootClock::now();
  EXPECT_EQ(nvmlDeviceGetPowerUsage(device(0), &number), kSuccess);
  EXPECT_GE(to_milliseconds(BootClock::now() - before), 50);
  EXPECT_GT(number, 0U);
}

TEST_F(FaultTest, HangingCallDoesNotBlockCallsOrShutdown) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  const DeviceHandle gpu = device(0);
  break_gpu(0, sim::failing(sim::Call::power_usage, kSuccess, sim::kInfiniteLatency));
  std::thread([gpu] {
    unsigned number = 0;
    (void)nvmlDeviceGetPowerUsage(gpu, &number);
  }).detach();
  ::usleep(20'000);
  unsigned number = 0;
  EXPECT_EQ(nvmlDeviceGetPowerUsage(device(1), &number), kSuccess);
  EXPECT_EQ(nvmlDeviceGetTemperature(gpu, 0, &number), kSuccess);
  EXPECT_EQ(nvmlShutdown(), kSuccess);
}

TEST_F(FaultTest, ClearedFaultReleasesHangingCallWithResult) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  const DeviceHandle gpu = device(0);
  break_gpu(0, sim::failing(sim::Call::power_usage, kUnknown, sim::kInfiniteLatency));
  std::atomic<bool> returned{false};
  unsigned milliwatts = 0;
  ReturnCode code = kTimeout;
  std::thread hanging([&] {
    code = nvmlDeviceGetPowerUsage(gpu, &milliwatts);
    returned = true;
  });
  ::usleep(50'000);
  EXPECT_FALSE(returned);
  break_gpu(0, {});
  hanging.join();
  EXPECT_EQ(code, kSuccess);
  EXPECT_GT(milliwatts, 0U);
}

TEST_F(FaultTest, CountedFaultExpires) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  const DeviceHandle gpu = device(0);
  sim::Fault fault = sim::failing(sim::Call::power_usage, kUnknown);
  fault.calls[0].times = 2;
  fault.calls[0].number = 1'000'001;  // used by no other test in this process
  break_gpu(0, fault);
  unsigned number = 0;
  EXPECT_EQ(nvmlDeviceGetPowerUsage(gpu, &number), kUnknown);
  EXPECT_EQ(nvmlDeviceGetTemperature(gpu, 0, &number), kSuccess);
  EXPECT_EQ(nvmlDeviceGetPowerUsage(gpu, &number), kUnknown);
  EXPECT_EQ(nvmlDeviceGetPowerUsage(gpu, &number), kSuccess);
}

TEST_F(FaultTest, DriverFaultOverridesGpuFault) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  const DeviceHandle gpu = device(1);
  world_.fault = sim::failing(sim::Call::power_usage, kTimeout);
  break_gpu(1, sim::failing(sim::Call::any, kUnknown));
  unsigned number = 0;
  EXPECT_EQ(nvmlDeviceGetPowerUsage(gpu, &number), kTimeout);
  EXPECT_EQ(nvmlDeviceGetTemperature(gpu, 0, &number), kUnknown);
  EXPECT_EQ(nvmlDeviceGetCount_v2(&number), kSuccess);
}

TEST_F(FaultTest, AWaitForEventsEndsWithItsDriver) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  EventSet set = nullptr;
  ASSERT_EQ(nvmlEventSetCreate(&set), kSuccess);
  ASSERT_EQ(nvmlDeviceRegisterEvents(device(0), kEventXid, set), kSuccess);
  world_.driver.session = 2;
  writer_->publish(world_);
  EventData data;
  EXPECT_EQ(nvmlEventSetWait_v2(set, &data, 10'000), kLibRmVersionMismatch);
}

TEST_F(FaultTest, InvalidGpuOrderIsHarmless) {
  world_.order.assign(200, 250);
  world_.order.resize(sim::kMaxGpus);
  writer_->publish(world_);
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  unsigned count = 0;
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), kSuccess);
  EXPECT_LE(count, 4U);
  for (unsigned index = 0; index < count; ++index) {
    unsigned number = 0;
    EXPECT_EQ(nvmlDeviceGetPowerUsage(device(index), &number), kSuccess);
  }
}

TEST_F(FaultTest, DeadServerMakesCallsReportDriverNotLoaded) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  const DeviceHandle gpu = device(0);
  unsigned number = 0;
  EXPECT_TRUE(sim::happens_within(std::chrono::milliseconds(2500), [&] {
    return nvmlDeviceGetPowerUsage(gpu, &number) == kDriverNotLoaded;
  }));
  EXPECT_EQ(nvmlShutdown(), kSuccess);
  EXPECT_EQ(nvmlInit_v2(), kDriverNotLoaded);
}

TEST_F(FaultTest, TheLibraryLoadsByItselfAndAnswers) {
  const std::unique_ptr<void, int (*)(void*)> library(
      ::dlopen(SIM_NVML_LIBRARY, RTLD_NOW | RTLD_LOCAL), ::dlclose);
  ASSERT_NE(library, nullptr) << ::dlerror();
  const auto call = [&](const char* name) {
    return reinterpret_cast<ReturnCode (*)()>(::dlsym(library.get(), name));
  };
  ASSERT_NE(call("nvmlInit_v2"), nullptr);
  EXPECT_EQ(call("nvmlInit_v2")(), kSuccess);
  EXPECT_EQ(call("nvmlShutdown")(), kSuccess);
  // Each missing name makes some client show no GPU.
  for (const char* name : {"nvmlDeviceGetHandleByIndex", "nvmlDeviceGetPcieThroughput",
                           "nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetFieldValues",
                           "nvmlDeviceSetPowerManagementLimit", "nvmlEventSetWait_v2"}) {
    EXPECT_NE(call(name), nullptr) << name;
  }
  EXPECT_EQ(::dlsym(library.get(),
                    "_ZN7gpuyard3sim10find_modelESt17basic_string_viewIcSt11char_traitsIcEE"),
            nullptr);
}

}  // namespace
}  // namespace gpuyard::sim_nvml
