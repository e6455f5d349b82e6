// NVML's functions as tests call them, and a world to call them on. Part of no library.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/nvml/abi.h"
#include "sim/physics.h"
#include "sim/world_for_tests.h"
#include "sim/world_writer.h"

using gpuyard::nvml::Bar1Memory;
using gpuyard::nvml::DeviceHandle;
using gpuyard::nvml::EccCounts;
using gpuyard::nvml::EventData;
using gpuyard::nvml::EventDataV1;
using gpuyard::nvml::EventSet;
using gpuyard::nvml::FieldValue;
using gpuyard::nvml::GpmMetricsGet;
using gpuyard::nvml::GpmSample;
using gpuyard::nvml::GpmSupport;
using gpuyard::nvml::MemoryV1;
using gpuyard::nvml::MemoryV2;
using gpuyard::nvml::PciInfo;
using gpuyard::nvml::PciInfoV1;
using gpuyard::nvml::PciInfoV2;
using gpuyard::nvml::PowerLimitV2;
using gpuyard::nvml::ProcessDetailList;
using gpuyard::nvml::ProcessInfo;
using gpuyard::nvml::ProcessInfoV1;
using gpuyard::nvml::ProcessUtilization;
using gpuyard::nvml::ReturnCode;
using gpuyard::nvml::TemperatureV1;
using gpuyard::nvml::Utilization;

extern "C" {
ReturnCode nvmlInit();
ReturnCode nvmlInit_v2();
ReturnCode nvmlInitWithFlags(unsigned);
ReturnCode nvmlShutdown();
const char* nvmlErrorString(ReturnCode);
ReturnCode nvmlSystemGetDriverVersion(char*, unsigned);
ReturnCode nvmlSystemGetNVMLVersion(char*, unsigned);
ReturnCode nvmlSystemGetCudaDriverVersion_v2(int*);
ReturnCode nvmlDeviceGetCount(unsigned*);
ReturnCode nvmlDeviceGetCount_v2(unsigned*);
ReturnCode nvmlDeviceGetHandleByIndex_v2(unsigned, DeviceHandle*);
ReturnCode nvmlDeviceGetHandleByUUID(const char*, DeviceHandle*);
ReturnCode nvmlDeviceGetHandleByPciBusId_v2(const char*, DeviceHandle*);
ReturnCode nvmlDeviceGetName(DeviceHandle, char*, unsigned);
ReturnCode nvmlDeviceGetUUID(DeviceHandle, char*, unsigned);
ReturnCode nvmlDeviceGetIndex(DeviceHandle, unsigned*);
ReturnCode nvmlDeviceGetPciInfo(DeviceHandle, PciInfoV1*);
ReturnCode nvmlDeviceGetPciInfo_v2(DeviceHandle, PciInfoV2*);
ReturnCode nvmlDeviceGetPciInfo_v3(DeviceHandle, PciInfo*);
ReturnCode nvmlDeviceGetCudaComputeCapability(DeviceHandle, int*, int*);
ReturnCode nvmlDeviceGetMemoryInfo(DeviceHandle, MemoryV1*);
ReturnCode nvmlDeviceGetMemoryInfo_v2(DeviceHandle, MemoryV2*);
ReturnCode nvmlDeviceGetUtilizationRates(DeviceHandle, Utilization*);
ReturnCode nvmlDeviceGetTemperature(DeviceHandle, unsigned, unsigned*);
ReturnCode nvmlDeviceGetTemperatureV(DeviceHandle, TemperatureV1*);
ReturnCode nvmlDeviceGetFanSpeed(DeviceHandle, unsigned*);
ReturnCode nvmlDeviceGetPowerUsage(DeviceHandle, unsigned*);
ReturnCode nvmlDeviceGetPowerManagementLimitConstraints(DeviceHandle, unsigned*, unsigned*);
ReturnCode nvmlDeviceGetTotalEnergyConsumption(DeviceHandle, unsigned long long*);
ReturnCode nvmlDeviceGetClockInfo(DeviceHandle, unsigned, unsigned*);
ReturnCode nvmlDeviceGetMaxClockInfo(DeviceHandle, unsigned, unsigned*);
ReturnCode nvmlDeviceGetCurrentClocksEventReasons(DeviceHandle, unsigned long long*);
ReturnCode nvmlDeviceGetPerformanceState(DeviceHandle, unsigned*);
ReturnCode nvmlDeviceGetPersistenceMode(DeviceHandle, unsigned*);
ReturnCode nvmlDeviceGetMigMode(DeviceHandle, unsigned*, unsigned*);
ReturnCode nvmlDeviceGetComputeRunningProcesses(DeviceHandle, unsigned*, ProcessInfoV1*);
ReturnCode nvmlDeviceGetComputeRunningProcesses_v2(DeviceHandle, unsigned*, ProcessInfo*);
ReturnCode nvmlDeviceGetComputeRunningProcesses_v3(DeviceHandle, unsigned*, ProcessInfo*);
ReturnCode nvmlDeviceGetGraphicsRunningProcesses_v3(DeviceHandle, unsigned*, ProcessInfo*);
ReturnCode nvmlDeviceGetMPSComputeRunningProcesses_v3(DeviceHandle, unsigned*, ProcessInfo*);
ReturnCode nvmlDeviceGetRunningProcessDetailList(DeviceHandle, ProcessDetailList*);
ReturnCode nvmlDeviceGetProcessUtilization(DeviceHandle, ProcessUtilization*, unsigned*,
                                           unsigned long long);
ReturnCode nvmlDeviceGetVbiosVersion(DeviceHandle, char*, unsigned);
ReturnCode nvmlDeviceGetPcieThroughput(DeviceHandle, unsigned, unsigned*);
ReturnCode nvmlDeviceGetSupportedMemoryClocks(DeviceHandle, unsigned*, unsigned*);
ReturnCode nvmlDeviceGetRetiredPages(DeviceHandle, unsigned, unsigned*, unsigned long long*);
ReturnCode nvmlDeviceGetRetiredPages_v2(DeviceHandle, unsigned, unsigned*, unsigned long long*,
                                        unsigned long long*);
ReturnCode nvmlDeviceGetRemappedRows(DeviceHandle, unsigned*, unsigned*, unsigned*, unsigned*);
ReturnCode nvmlDeviceGetMemoryErrorCounter(DeviceHandle, unsigned, unsigned, unsigned,
                                           unsigned long long*);
ReturnCode nvmlDeviceGetTotalEccErrors(DeviceHandle, unsigned, unsigned, unsigned long long*);
ReturnCode nvmlDeviceGetFieldValues(DeviceHandle, int, FieldValue*);
ReturnCode nvmlDeviceGetTopologyCommonAncestor(DeviceHandle, DeviceHandle, unsigned*);
ReturnCode nvmlDeviceGetNumaNodeId(DeviceHandle, unsigned*);
ReturnCode nvmlDeviceGetNvLinkRemoteDeviceType(DeviceHandle, unsigned, unsigned*);
ReturnCode nvmlDeviceGetNvLinkRemotePciInfo_v2(DeviceHandle, unsigned, PciInfo*);
ReturnCode nvmlDeviceGetMemoryAffinity(DeviceHandle, unsigned, unsigned long*, unsigned);
ReturnCode nvmlGpmSampleAlloc(GpmSample*);
ReturnCode nvmlGpmSampleFree(GpmSample);
ReturnCode nvmlGpmSampleGet(DeviceHandle, GpmSample);
ReturnCode nvmlGpmMetricsGet(GpmMetricsGet*);
ReturnCode nvmlGpmQueryDeviceSupport(DeviceHandle, GpmSupport*);
ReturnCode nvmlEventSetCreate(EventSet*);
ReturnCode nvmlEventSetFree(EventSet);
ReturnCode nvmlEventSetWait(EventSet, EventDataV1*, unsigned);
ReturnCode nvmlEventSetWait_v2(EventSet, EventData*, unsigned);
ReturnCode nvmlDeviceRegisterEvents(DeviceHandle, unsigned long long, EventSet);
ReturnCode nvmlDeviceSetPowerManagementLimit(DeviceHandle, unsigned);
ReturnCode nvmlDeviceSetPowerManagementLimit_v2(DeviceHandle, PowerLimitV2*);
}

namespace gpuyard::sim_nvml {

inline constexpr std::uint64_t kMiB = 1 << 20;

// A world that the test publishes itself; it counts as alive for two seconds.
class AbiTest : public ::testing::Test {
 protected:
  AbiTest() {
    ::setenv("GPUYARD_SIM_WORLD", directory_.path().c_str(), 1);
    replace_world("h100");
  }
  ~AbiTest() override {
    while (nvmlShutdown() == nvml::kSuccess) {
    }
    ::unsetenv("GPUYARD_SIM_WORLD");
  }

  // Replaces the world by four GPUs of another model that have worked for five seconds. Call it
  // before initialisation.
  void replace_world(std::string_view model) {
    writer_.reset();
    world_ = sim::make_world(*sim::find_model(model), 4,
                             {.kind = sim::WorkloadKind::steady, .load = 0.9});
    for (int i = 0; i < 500; ++i) sim::step(world_, sim::kStep);
    writer_ =
        std::make_unique<sim::WorldWriter>(*sim::WorldWriter::create(directory_.path(), world_));
  }
  void put_processes(unsigned index, std::vector<sim::ProcessRecord> processes) {
    world_.gpus[index].processes = sim::ProcessSet(std::move(processes));
    sim::step(world_, sim::kStep);
    writer_->publish_processes(world_);
    writer_->publish(world_);
  }
  static DeviceHandle device(unsigned index) {
    DeviceHandle handle = nullptr;
    EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(index, &handle), nvml::kSuccess);
    return handle;
  }
  static std::string uuid_of(DeviceHandle handle) {
    std::array<char, nvml::kUuidSize> text{};
    EXPECT_EQ(nvmlDeviceGetUUID(handle, text.data(), nvml::kUuidSize), nvml::kSuccess);
    return text.data();
  }
  void break_gpu(unsigned index, const sim::Fault& fault) {
    world_.gpus[index].fault = fault;
    writer_->publish(world_);
  }

  ScratchDirectory directory_;
  sim::World world_;
  std::unique_ptr<sim::WorldWriter> writer_;
};

}  // namespace gpuyard::sim_nvml
