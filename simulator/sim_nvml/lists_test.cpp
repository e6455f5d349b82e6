// Lists of every layout: their content, and that nothing is written after it.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>

#include "sim/memory_errors.h"
#include "sim_nvml/client_for_tests.h"

namespace gpuyard::sim_nvml {
namespace {

using namespace gpuyard::nvml;

using ListTest = AbiTest;

sim::ProcessRecord process(unsigned pid, std::uint64_t mib,
                           sim::ProcessKind kind = sim::ProcessKind::compute) {
  return {.pid = pid, .kind = kind, .memory_bytes = mib * kMiB, .load_permille = 300};
}

// Room for N entries of a layout, and a guard after them.
template <class Entry, std::size_t N>
struct GuardedBuffer {
  std::array<Entry, N> entries{};
  std::array<unsigned char, 64> wall{};

  GuardedBuffer() { wall.fill(0xAA); }
  bool is_guard_intact() const {
    for (const unsigned char byte : wall) {
      if (byte != 0xAA) return false;
    }
    return true;
  }
};

TEST_F(ListTest, ProcessListGenerationsKeepTheirLayouts) {
  put_processes(0, {process(100, 512), process(200, 1024)});
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  GuardedBuffer<ProcessInfoV1, 2> first;
  GuardedBuffer<ProcessInfo, 2> second;
  GuardedBuffer<ProcessInfo, 2> third;
  unsigned count = 2;
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses(device(0), &count, first.entries.data()),
            kSuccess);
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v2(device(0), &count, second.entries.data()),
            kSuccess);
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(device(0), &count, third.entries.data()),
            kSuccess);
  EXPECT_EQ(count, 2U);
  EXPECT_TRUE(first.is_guard_intact() && second.is_guard_intact() && third.is_guard_intact());
  EXPECT_EQ(first.entries[1].pid, 200U);
  EXPECT_EQ(first.entries[1].used_memory, 1024 * kMiB);
  EXPECT_EQ(second.entries[0].used_memory, 512 * kMiB);
  EXPECT_EQ(third.entries[1].gpu_instance, ~0U);
}

TEST_F(ListTest, SmallBufferReturnsCountWithoutWriting) {
  put_processes(0, {process(100, 512), process(200, 1024)});
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  GuardedBuffer<ProcessInfo, 1> room;
  unsigned count = 1;
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(device(0), &count, room.entries.data()),
            kInsufficientSize);
  EXPECT_EQ(count, 2U);
  EXPECT_EQ(room.entries[0].pid, 0U);
  count = 0;
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(device(0), &count, nullptr), kInsufficientSize);
  EXPECT_EQ(count, 2U);
}

TEST_F(ListTest, EmptyProcessListSucceedsWithAnyCapacity) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  unsigned count = 0;
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(device(0), &count, nullptr), kSuccess);
  count = 3;
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(device(0), &count, nullptr), kInvalidArgument);
  GuardedBuffer<ProcessInfo, 3> room;
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(device(0), &count, room.entries.data()),
            kSuccess);
  EXPECT_EQ(count, 0U);
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(device(0), nullptr, nullptr), kInvalidArgument);
}

TEST_F(ListTest, AProcessIsOnTheListOfItsKindOnly) {
  put_processes(1, {process(100, 512), process(300, 64, sim::ProcessKind::graphics)});
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  GuardedBuffer<ProcessInfo, 4> room;
  unsigned count = 4;
  EXPECT_EQ(nvmlDeviceGetGraphicsRunningProcesses_v3(device(1), &count, room.entries.data()),
            kSuccess);
  EXPECT_EQ(count, 1U);
  EXPECT_EQ(room.entries[0].pid, 300U);
  count = 4;
  EXPECT_EQ(nvmlDeviceGetMPSComputeRunningProcesses_v3(device(1), &count, room.entries.data()),
            kSuccess);
  EXPECT_EQ(count, 0U);
}

TEST_F(ListTest, ADetailListChecksItsVersionAndMode) {
  put_processes(0, {process(100, 512)});
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  ProcessDetailList list;
  EXPECT_EQ(nvmlDeviceGetRunningProcessDetailList(device(0), &list), kInsufficientSize);
  ASSERT_EQ(list.count, 1U);
  GuardedBuffer<ProcessDetail, 1> room;
  list.entries = room.entries.data();
  EXPECT_EQ(nvmlDeviceGetRunningProcessDetailList(device(0), &list), kSuccess);
  EXPECT_EQ(room.entries[0].pid, 100U);
  EXPECT_EQ(room.entries[0].protected_memory, 0U);
  EXPECT_TRUE(room.is_guard_intact());
  list.mode = 3;
  EXPECT_EQ(nvmlDeviceGetRunningProcessDetailList(device(0), &list), kInvalidArgument);
  list.version = 0x02000018;
  EXPECT_EQ(nvmlDeviceGetRunningProcessDetailList(device(0), &list), kArgumentVersionMismatch);
}

TEST_F(ListTest, ProcessUtilizationReportsSizeAndOmitsIdleGpu) {
  put_processes(0, {process(100, 512)});
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  std::array<ProcessUtilization, 200> samples{};
  for (const unsigned gpu : {0U, 1U}) {
    unsigned count = 0;
    EXPECT_EQ(nvmlDeviceGetProcessUtilization(device(gpu), nullptr, &count, 0), kInsufficientSize);
    ASSERT_LE(count, samples.size());
    EXPECT_EQ(nvmlDeviceGetProcessUtilization(device(gpu), samples.data(), &count, 0),
              gpu == 0 ? kSuccess : kNotFound);
  }
  EXPECT_EQ(samples[0].pid, 100U);
  EXPECT_GT(samples[0].sm, 0U);
  unsigned count = 200;
  EXPECT_EQ(nvmlDeviceGetProcessUtilization(device(0), samples.data(), &count, ~0ULL), kNotFound);
}

TEST_F(ListTest, SupportedClocksComeHighestFirst) {
  replace_world("rtx4090");
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  unsigned count = 0;
  EXPECT_EQ(nvmlDeviceGetSupportedMemoryClocks(device(0), &count, nullptr), kInsufficientSize);
  EXPECT_EQ(count, 5U);
  GuardedBuffer<unsigned, 5> room;
  EXPECT_EQ(nvmlDeviceGetSupportedMemoryClocks(device(0), &count, room.entries.data()), kSuccess);
  EXPECT_EQ(room.entries, (std::array<unsigned, 5>{10501, 10251, 5001, 810, 405}));
  EXPECT_TRUE(room.is_guard_intact());
}

TEST_F(ListTest, AT4RetiresPagesAndAnH100RemapsRows) {
  replace_world("t4");
  ASSERT_TRUE(sim::add_memory_errors(world_.gpus[0], {.uncorrected = true, .count = 2}).ok());
  writer_->publish(world_);
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  unsigned count = 0;
  EXPECT_EQ(nvmlDeviceGetRetiredPages(device(0), kRetiredDoubleBit, &count, nullptr),
            kInsufficientSize);
  ASSERT_EQ(count, 2U);
  GuardedBuffer<unsigned long long, 2> addresses;
  GuardedBuffer<unsigned long long, 2> times;
  EXPECT_EQ(nvmlDeviceGetRetiredPages_v2(device(0), kRetiredDoubleBit, &count,
                                         addresses.entries.data(), times.entries.data()),
            kSuccess);
  EXPECT_NE(addresses.entries[0], addresses.entries[1]);
  EXPECT_EQ(addresses.entries[0] % 4096, 0U);
  EXPECT_TRUE(addresses.is_guard_intact() && times.is_guard_intact());
  unsigned long long errors = 0;
  EXPECT_EQ(nvmlDeviceGetTotalEccErrors(device(0), kEccUncorrected, kEccVolatile, &errors),
            kSuccess);
  EXPECT_EQ(errors, 2U);
  EXPECT_EQ(nvmlDeviceGetMemoryErrorCounter(device(0), kEccUncorrected, kEccVolatile, 2, &errors),
            kSuccess);
  EXPECT_EQ(errors, 2U);
  EXPECT_EQ(nvmlDeviceGetRemappedRows(device(0), &count, &count, &count, &count), kNotSupported);
}

TEST_F(ListTest, EachFieldValueHasItsOwnCodeAndType) {
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  GuardedBuffer<FieldValue, 4> room;
  room.entries[0].field_id = kFieldPowerInstant;
  room.entries[1].field_id = kFieldThrottleSwThermal129;  // unknown to this library
  room.entries[2].field_id = kFieldTotalEnergy;
  room.entries[3].field_id = kFieldRetiredDoubleBit;  // this model does not have it
  EXPECT_EQ(nvmlDeviceGetFieldValues(device(0), 4, room.entries.data()), kSuccess);
  const sim::GpuRecord expected = sim::record_of(world_.gpus[0]);
  EXPECT_EQ(room.entries[0].code, kSuccess);
  EXPECT_EQ(room.entries[0].value_type, kValueUnsigned);
  EXPECT_EQ(room.entries[0].value, expected.power_mw);
  EXPECT_GT(room.entries[0].timestamp_us, 0);
  EXPECT_EQ(room.entries[1].code, kInvalidArgument);
  EXPECT_EQ(room.entries[2].value_type, kValueUnsignedLongLong);
  EXPECT_EQ(room.entries[2].value, expected.energy_mj);
  EXPECT_EQ(room.entries[3].code, kNotSupported);
  EXPECT_TRUE(room.is_guard_intact());
}

TEST_F(ListTest, RecoveryActionIsReportedFromBranch570On) {
  const auto read_field = [] {
    FieldValue value;
    value.field_id = kFieldRecoveryAction;
    EXPECT_EQ(nvmlDeviceGetFieldValues(device(0), 1, &value), kSuccess);
    return value;
  };
  sim::Fault fault;
  fault.recovery_action = sim::RecoveryAction::reboot;
  break_gpu(0, fault);
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  EXPECT_EQ(read_field().code, kNotSupported);
  EXPECT_EQ(nvmlShutdown(), kSuccess);
  world_.driver.version = "570.86.15";
  break_gpu(0, fault);
  ASSERT_EQ(nvmlInit_v2(), kSuccess);
  EXPECT_EQ(read_field().code, kSuccess);
  EXPECT_EQ(read_field().value, kRecoveryReboot);
}

}  // namespace
}  // namespace gpuyard::sim_nvml
