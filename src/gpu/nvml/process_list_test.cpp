#include "gpu/nvml/process_list.h"

#include <cstring>
#include <numeric>

#include <gtest/gtest.h>

namespace gpuyard::nvml {
namespace {

// A driver with processes, whose entries may have any length.
struct ProcessDriver {
  std::vector<ProcessInfoV1> compute;
  std::vector<ProcessInfoV1> graphics;
  std::size_t stride = sizeof(ProcessInfo);
  unsigned appear_after_count = 0;  // processes that start between the two calls
  std::vector<ProcessUtilization> utilization;
  unsigned long long asked_since = 0;
};
ProcessDriver process_driver;

ReturnCode list(std::vector<ProcessInfoV1>& processes, unsigned* count, void* out) {
  const unsigned room = *count;
  *count = static_cast<unsigned>(processes.size());
  for (; room == 0 && process_driver.appear_after_count > 0; --process_driver.appear_after_count) {
    processes.push_back({900 + process_driver.appear_after_count, 1});
  }
  if (*count == 0) return kSuccess;
  if (room < *count) return kInsufficientSize;
  *count = static_cast<unsigned>(processes.size());
  auto* bytes = static_cast<std::byte*>(out);
  for (const ProcessInfoV1& process : processes) {
    std::memset(bytes, 0xFF, process_driver.stride);  // not MIG
    std::memcpy(bytes, &process, sizeof process);
    bytes += process_driver.stride;
  }
  return kSuccess;
}

Api process_api() {
  process_driver = {};
  Api api;
  api.compute_processes.function = [](DeviceHandle, unsigned* count, void* out) {
    return list(process_driver.compute, count, out);
  };
  api.graphics_processes.function = [](DeviceHandle, unsigned* count, void* out) {
    return list(process_driver.graphics, count, out);
  };
  api.process_utilization.function = [](DeviceHandle, ProcessUtilization* out, unsigned* count,
                                        unsigned long long since) {
    process_driver.asked_since = since;
    const unsigned room = *count;
    *count = static_cast<unsigned>(process_driver.utilization.size());
    if (*count == 0) return kNotFound;
    if (room < *count || out == nullptr) return kInsufficientSize;
    std::copy(process_driver.utilization.begin(), process_driver.utilization.end(), out);
    return kSuccess;
  };
  return api;
}

class ProcessListReaderTest : public ::testing::Test {
 protected:
  Sample read() {
    Sample sample;
    lists_.read(api_, nullptr, Recorder(support_, sample));
    return sample;
  }
  std::vector<GpuProcess> processes() {
    const auto list = read().processes();
    return list && list->processes() != nullptr ? *list->processes() : std::vector<GpuProcess>{};
  }

  Api api_ = process_api();
  SupportCache support_;
  ProcessListReader lists_;
};

TEST_F(ProcessListReaderTest, IdleGpuHasEmptyList) {
  const Sample sample = read();
  EXPECT_EQ(*sample.number(Metric::processes_compute), 0);
  EXPECT_EQ(*sample.number(Metric::processes_graphics), 0);
  ASSERT_TRUE(sample.processes() && sample.processes()->processes() != nullptr);
  EXPECT_TRUE(sample.processes()->processes()->empty());
}

TEST_F(ProcessListReaderTest, TheLengthOfAnEntryIsMeasured) {
  process_driver.compute = {{101, 5000}, {102, 4000}, {103, 3000}};
  for (const std::size_t stride : {16U, 24U, 32U}) {
    process_driver.stride = stride;
    EXPECT_EQ(processes(), (std::vector<GpuProcess>{{101, ProcessKind::compute, 5000, {}},
                                                    {102, ProcessKind::compute, 4000, {}},
                                                    {103, ProcessKind::compute, 3000, {}}}))
        << stride;
  }
}

TEST_F(ProcessListReaderTest, AnUnknownLayoutIsAFailureNotGarbage) {
  process_driver.compute = {{101, 5000}, {102, 4000}};
  process_driver.stride = 28;
  const Sample sample = read();
  EXPECT_EQ(sample.find(Metric::processes_compute)->missing()->reason, MissingReason::failed);
}

TEST_F(ProcessListReaderTest, ProcessesThatStartInBetweenAreThere) {
  process_driver.compute = {{101, 5000}};
  process_driver.appear_after_count = 100;  // more than the slack, so the list is read again
  EXPECT_EQ(*read().number(Metric::processes_compute), 101);
}

TEST_F(ProcessListReaderTest, UnavailableProcessMemoryIsEmptyNotHuge) {
  process_driver.compute = {{101, kMemoryNotAvailable}};
  EXPECT_EQ(processes().at(0).memory_bytes, std::nullopt);
  EXPECT_EQ(read().find(Metric::processes_memory)->missing()->reason, MissingReason::not_supported);
}

TEST_F(ProcessListReaderTest, MemorySumCountsEachProcessOnce) {
  EXPECT_EQ(*read().number(Metric::processes_memory), 0);
  process_driver.compute = {{101, 7}, {103, 100}};
  process_driver.graphics = {{101, 9}, {102, 5}};
  EXPECT_EQ(*read().number(Metric::processes_memory), 114);
}

TEST_F(ProcessListReaderTest, ComputeAndGraphicsProcessIsListedOnce) {
  process_driver.compute = {{101, 7}};
  process_driver.graphics = {{101, 9}, {102, 5}};
  const Sample sample = read();
  EXPECT_EQ(*sample.number(Metric::processes_compute), 1);
  EXPECT_EQ(*sample.number(Metric::processes_graphics), 2);
  EXPECT_EQ(processes(), (std::vector<GpuProcess>{{101, ProcessKind::compute_and_graphics, 9, {}},
                                                  {102, ProcessKind::graphics, 5, {}}}));
}

TEST_F(ProcessListReaderTest, LargestMemoryUsersAreListedAndAllCounted) {
  for (unsigned pid = 1; pid <= 10'000; ++pid) process_driver.compute.push_back({pid, pid});
  const Sample sample = read();
  EXPECT_EQ(*sample.number(Metric::processes_compute), 10'000);
  const auto listed = *sample.processes()->processes();
  ASSERT_EQ(listed.size(), kMaxListedProcesses);
  EXPECT_EQ(listed.front().pid, 10'000U);
  EXPECT_EQ(listed.back().pid, 10'000U - kMaxListedProcesses + 1);
}

TEST_F(ProcessListReaderTest, TheNewestUtilizationOfEachProcessCounts) {
  process_driver.compute = {{101, 2}, {102, 1}};
  process_driver.utilization = {
      {101, 2000, 80, 0, 0, 0}, {101, 1000, 5, 0, 0, 0}, {999, 1500, 9, 0, 0, 0}};
  const auto list = processes();
  EXPECT_EQ(list.at(0).sm_percent, 80);
  EXPECT_EQ(list.at(1).sm_percent, std::nullopt);
  processes();
  EXPECT_EQ(process_driver.asked_since, 2000U);
}

TEST_F(ProcessListReaderTest, HalfAListThatFailsIsNoList) {
  process_driver.compute = {{101, 2}};
  api_.graphics_processes.function = [](DeviceHandle, unsigned*, void*) { return kUnknown; };
  const Sample sample = read();
  EXPECT_EQ(sample.find(Metric::processes_graphics)->missing()->reason, MissingReason::failed);
  EXPECT_EQ(sample.processes()->processes(), nullptr);
  EXPECT_EQ(std::get<Missing>(sample.processes()->value).reason, MissingReason::failed);
}

TEST_F(ProcessListReaderTest, AListWithoutComputeProcessesIsNoList) {
  api_.compute_processes.function = [](DeviceHandle, unsigned*, void*) { return kNotSupported; };
  const Sample sample = read();
  EXPECT_EQ(sample.processes()->processes(), nullptr) << "0 processes would be made up";
  EXPECT_EQ(std::get<Missing>(sample.processes()->value).reason, MissingReason::not_supported);
}

TEST_F(ProcessListReaderTest, BoardWithoutGraphicsHasWholeList) {
  process_driver.compute = {{101, 2}};
  api_.graphics_processes.function = [](DeviceHandle, unsigned*, void*) { return kNotSupported; };
  EXPECT_EQ(read().processes()->processes()->size(), 1U);
}

TEST_F(ProcessListReaderTest, ImplausibleProcessCountIsNotAllocated) {
  api_.compute_processes.function = [](DeviceHandle, unsigned* count, void*) {
    *count = 4'000'000'000U;
    return kInsufficientSize;
  };
  EXPECT_NE(read().find(Metric::processes_compute)->missing(), nullptr);
  EXPECT_NE(read().find(Metric::processes_memory)->missing(), nullptr);
}

}  // namespace
}  // namespace gpuyard::nvml
