// The interface as a client sees it: return codes, layouts and readings.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>

#include "sim_nvml/client_for_tests.h"

namespace gpuyard::sim_nvml {
namespace {

using namespace gpuyard::nvml;

TEST_F(AbiTest, InitialisationsAreCountedUntilLastShutdown) {
  EXPECT_EQ(nvmlShutdown(), kUninitialized);
  EXPECT_EQ(nvmlInit(), kSuccess);
  EXPECT_EQ(nvmlInit_v2(), kSuccess);
  EXPECT_EQ(nvmlInitWithFlags(0), kSuccess);
  unsigned count = 0;
  EXPECT_EQ(nvmlShutdown(), kSuccess);
  EXPECT_EQ(nvmlShutdown(), kSuccess);
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), kSuccess);
  EXPECT_EQ(nvmlShutdown(), kSuccess);
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), kUninitialized);
  EXPECT_EQ(nvmlShutdown(), kUninitialized);
}

TEST_F(AbiTest, DeadWorldMeansDriverNotLoaded) {
  writer_.reset();
  EXPECT_EQ(nvmlInit_v2(), kDriverNotLoaded);
  ::setenv("GPUYARD_SIM_WORLD", "/no/such/world", 1);
  EXPECT_EQ(nvmlInit_v2(), kDriverNotLoaded);
}

TEST_F(AbiTest, BeforeInitialisationEveryCallIsUninitialized) {
  unsigned number = 0;
  std::array<char, 96> text{};
  EXPECT_EQ(nvmlDeviceGetCount(&number), kUninitialized);
  EXPECT_EQ(nvmlDeviceGetHandleByUUID(nullptr, nullptr), kUninitialized);
  EXPECT_EQ(nvmlDeviceGetPowerUsage(nullptr, nullptr), kUninitialized);
  EXPECT_EQ(nvmlSystemGetDriverVersion(text.data(), 96), kUninitialized);
  EXPECT_EQ(nvmlDeviceGetVbiosVersion(nullptr, nullptr, 0), kUninitialized);
  EXPECT_EQ(nvmlDeviceGetNumaNodeId(nullptr, nullptr), kUninitialized);
}

TEST_F(AbiTest, ErrorTextsAreNvidiasAndNeedNoInitialisation) {
  EXPECT_STREQ(nvmlErrorString(kLibraryNotFound), "NVML Shared Library Not Found");
  EXPECT_STREQ(nvmlErrorString(kUnknown), "Unknown Error");
  EXPECT_STREQ(nvmlErrorString(kGpuIsLost), "GPU is lost");
  EXPECT_STREQ(nvmlErrorString(kOperatingSystem), "GPU access blocked by the operating system");
  EXPECT_STREQ(nvmlErrorString(kArgumentVersionMismatch), "Argument version mismatch");
  EXPECT_STREQ(nvmlErrorString(kNotReady), "System is not in ready state");
  EXPECT_STREQ(nvmlErrorString(12345), "Unknown Error");
}

TEST_F(AbiTest, VersionsMatchSimulatedDriver) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  std::array<char, kDriverVersionSize> text{};
  EXPECT_EQ(nvmlSystemGetDriverVersion(text.data(), kDriverVersionSize), kSuccess);
  EXPECT_STREQ(text.data(), "535.104.05");
  EXPECT_EQ(nvmlSystemGetNVMLVersion(text.data(), kNvmlVersionSize), kSuccess);
  EXPECT_STREQ(text.data(), "12.535.104");
  int cuda = 0;
  EXPECT_EQ(nvmlSystemGetCudaDriverVersion_v2(&cuda), kSuccess);
  EXPECT_EQ(cuda, 12020);
}

TEST_F(AbiTest, WrongArgumentsAreInvalidAndShortBuffersInsufficient) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  const DeviceHandle gpu = device(0);
  DeviceHandle handle = nullptr;
  std::array<char, 96> text{};
  unsigned number = 0;
  EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(4, &handle), kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(0, nullptr), kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetPowerUsage(gpu, nullptr), kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetPowerUsage(nullptr, &number), kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetPowerUsage(reinterpret_cast<DeviceHandle>(&number), &number),
            kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetPowerManagementLimitConstraints(gpu, &number, nullptr), kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetTemperature(gpu, 1, &number), kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetClockInfo(gpu, 4, &number), kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetName(gpu, text.data(), 21), kInsufficientSize);
  EXPECT_EQ(nvmlDeviceGetName(gpu, text.data(), 22), kSuccess);
  EXPECT_EQ(nvmlDeviceGetUUID(gpu, text.data(), 0), kInsufficientSize);
}

TEST_F(AbiTest, AGpuIsFoundByIndexUuidAndPciAddress) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  const DeviceHandle gpu = device(3);
  DeviceHandle found = nullptr;
  EXPECT_EQ(nvmlDeviceGetHandleByUUID(uuid_of(gpu).c_str(), &found), kSuccess);
  EXPECT_EQ(found, gpu);
  PciInfo pci;
  EXPECT_EQ(nvmlDeviceGetPciInfo_v3(gpu, &pci), kSuccess);
  found = nullptr;
  EXPECT_EQ(nvmlDeviceGetHandleByPciBusId_v2(pci.bus_id, &found), kSuccess);
  EXPECT_EQ(found, gpu);
  found = nullptr;
  EXPECT_EQ(nvmlDeviceGetHandleByPciBusId_v2(pci.bus_id_legacy, &found), kSuccess);
  EXPECT_EQ(found, gpu);
  unsigned index = 0;
  EXPECT_EQ(nvmlDeviceGetIndex(found, &index), kSuccess);
  EXPECT_EQ(index, 3U);
  EXPECT_EQ(nvmlDeviceGetHandleByUUID("GPU-none", &found), kNotFound);
  EXPECT_EQ(nvmlDeviceGetHandleByPciBusId_v2("nonsense", &found), kNotFound);
}

TEST_F(AbiTest, EachPciInfoVersionStaysWithinLayout) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  struct {
    PciInfoV1 info;
    std::array<unsigned char, 64> behind;
  } first{};
  struct {
    PciInfoV2 info;
    std::array<unsigned char, 64> behind;
  } second{};
  first.behind.fill(0xAA);
  second.behind.fill(0xAA);
  EXPECT_EQ(nvmlDeviceGetPciInfo(device(1), &first.info), kSuccess);
  EXPECT_EQ(nvmlDeviceGetPciInfo_v2(device(1), &second.info), kSuccess);
  EXPECT_STREQ(first.info.bus_id, "0000:14:00.0");
  EXPECT_STREQ(second.info.bus_id, "0000:14:00.0");
  EXPECT_EQ(second.info.pci_device_id, 0x233010DEU);
  for (const unsigned char byte : first.behind) EXPECT_EQ(byte, 0xAA);
  for (const unsigned char byte : second.behind) EXPECT_EQ(byte, 0xAA);
}

TEST_F(AbiTest, MemoryAddsUpInBothVersions) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  MemoryV1 one;
  MemoryV2 two;
  ASSERT_EQ(nvmlDeviceGetMemoryInfo(device(0), &one), kSuccess);
  ASSERT_EQ(nvmlDeviceGetMemoryInfo_v2(device(0), &two), kSuccess);
  EXPECT_EQ(one.total, 81559 * kMiB);
  EXPECT_EQ(one.free + one.used, one.total);
  EXPECT_EQ(two.reserved, 600 * kMiB);
  EXPECT_EQ(two.reserved + two.free + two.used, two.total);
  EXPECT_EQ(one.used, two.used + two.reserved);
  EXPECT_EQ(one.free, two.free);
}

TEST_F(AbiTest, VersionedStructsWithAnotherVersionMismatch) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  MemoryV2 memory;
  memory.version = 2;
  EXPECT_EQ(nvmlDeviceGetMemoryInfo_v2(device(0), &memory), kSuccess);
  for (const unsigned version : {0U, 1U, 3U, 0x03000028U, 0x02000030U}) {
    memory.version = version;
    EXPECT_EQ(nvmlDeviceGetMemoryInfo_v2(device(0), &memory), kArgumentVersionMismatch);
  }
  TemperatureV1 temperature;
  EXPECT_EQ(nvmlDeviceGetTemperatureV(device(0), &temperature), kSuccess);
  EXPECT_GT(temperature.celsius, 30);
  temperature.version = 0x0200000C;
  EXPECT_EQ(nvmlDeviceGetTemperatureV(device(0), &temperature), kArgumentVersionMismatch);
}

TEST_F(AbiTest, SensorsShowTheWorld) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  const sim::GpuRecord expected = sim::record_of(world_.gpus[2]);
  const DeviceHandle gpu = device(2);
  unsigned number = 0;
  unsigned long long big = 0;
  Utilization utilization;
  EXPECT_EQ(nvmlDeviceGetPowerUsage(gpu, &number), kSuccess);
  EXPECT_EQ(number, expected.power_average_mw);
  EXPECT_EQ(nvmlDeviceGetTotalEnergyConsumption(gpu, &big), kSuccess);
  EXPECT_EQ(big, expected.energy_mj);
  EXPECT_EQ(nvmlDeviceGetUtilizationRates(gpu, &utilization), kSuccess);
  EXPECT_EQ(utilization.gpu, 90U);
  EXPECT_EQ(nvmlDeviceGetClockInfo(gpu, kClockSm, &number), kSuccess);
  EXPECT_EQ(number, expected.sm_clock_mhz);
  EXPECT_EQ(nvmlDeviceGetMaxClockInfo(gpu, kClockMemory, &number), kSuccess);
  EXPECT_EQ(number, 2619U);
  EXPECT_EQ(nvmlDeviceGetCurrentClocksEventReasons(gpu, &big), kSuccess);
  EXPECT_EQ(big, 0U);
  int major = 0;
  int minor = 1;
  EXPECT_EQ(nvmlDeviceGetCudaComputeCapability(gpu, &major, &minor), kSuccess);
  EXPECT_EQ(major * 10 + minor, 90);
}

// A real H100 stays in P0 even when it is idle.
TEST_F(AbiTest, AnyLoadKeepsHighestPerformanceState) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  for (const auto kind : {sim::WorkloadKind::idle, sim::WorkloadKind::steady}) {
    world_.gpus[0].workload = {.kind = kind};
    for (int i = 0; i < 500; ++i) sim::step(world_, sim::kStep);
    writer_->publish(world_);
    unsigned state = 99;
    EXPECT_EQ(nvmlDeviceGetPerformanceState(device(0), &state), kSuccess);
    EXPECT_EQ(state, 0U);
  }
}

TEST_F(AbiTest, PersistenceIsOffAsADriverStarts) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  unsigned mode = 99;
  EXPECT_EQ(nvmlDeviceGetPersistenceMode(device(0), &mode), kSuccess);
  EXPECT_EQ(mode, 0U);
}

TEST_F(AbiTest, FeatureMissingOnH100IsUnsupported) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  unsigned number = 0;
  EXPECT_EQ(nvmlDeviceGetFanSpeed(device(0), &number), kNotSupported);
  EXPECT_EQ(nvmlDeviceGetNumaNodeId(device(0), &number), kNotSupported);
  unsigned long long page = 0;
  EXPECT_EQ(nvmlDeviceGetRetiredPages(device(0), kRetiredDoubleBit, &number, &page), kNotSupported);
}

TEST_F(AbiTest, PcieThroughputTakesTwentyMillisecondsOfTheCallersTime) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  unsigned kb_per_s = 0;
  const TimePoint before = BootClock::now();
  EXPECT_EQ(nvmlDeviceGetPcieThroughput(device(0), kPcieRx, &kb_per_s), kSuccess);
  EXPECT_GE(to_milliseconds(BootClock::now() - before), 20);
  EXPECT_EQ(kb_per_s, sim::record_of(world_.gpus[0]).pcie_rx_bytes_per_s / 1000);
}

TEST_F(AbiTest, TwoGpusAreNearerOnOneSocketThanAcross) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  unsigned level = 99;
  EXPECT_EQ(nvmlDeviceGetTopologyCommonAncestor(device(0), device(0), &level), kSuccess);
  EXPECT_EQ(level, kTopologyInternal);
  EXPECT_EQ(nvmlDeviceGetTopologyCommonAncestor(device(0), device(3), &level), kSuccess);
  EXPECT_EQ(level, kTopologyNode);
  EXPECT_EQ(nvmlDeviceGetTopologyCommonAncestor(device(0), nullptr, &level), kInvalidArgument);
}

TEST_F(AbiTest, EveryNvlinkOfAnH100LeadsToASwitch) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  unsigned kind = 0;
  EXPECT_EQ(nvmlDeviceGetNvLinkRemoteDeviceType(device(0), 17, &kind), kSuccess);
  EXPECT_EQ(kind, kNvlinkToSwitch);
  PciInfo pci;
  EXPECT_EQ(nvmlDeviceGetNvLinkRemotePciInfo_v2(device(0), 5, &pci), kSuccess);
  EXPECT_STREQ(pci.bus_id, "00000000:D5:00.0");
  EXPECT_EQ(nvmlDeviceGetNvLinkRemotePciInfo_v2(device(0), 18, &pci), kInvalidArgument);
}

TEST_F(AbiTest, ASocketsMemoryIsNearestToItsGpus) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  std::array<unsigned long, 3> nodes{7, 7, 7};
  EXPECT_EQ(nvmlDeviceGetMemoryAffinity(device(3), 2, nodes.data(), kAffinityOfNode), kSuccess);
  EXPECT_EQ(nodes, (std::array<unsigned long, 3>{1, 0, 7}));
  EXPECT_EQ(nvmlDeviceGetMemoryAffinity(device(0), 0, nodes.data(), kAffinityOfNode),
            kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetMemoryAffinity(device(0), 1, nodes.data(), 2), kInvalidArgument);
}

}  // namespace
}  // namespace gpuyard::sim_nvml
