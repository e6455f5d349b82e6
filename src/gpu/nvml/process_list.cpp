#include "gpu/nvml/process_list.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>

namespace gpuyard::nvml {
namespace {

constexpr std::size_t kMaxEntryBytes = 32;
constexpr std::byte kUntouched{0xA5};
// Room for processes that start between the call for the count and the call for the list.
constexpr unsigned kSlack = 32;

using ListCall = Call<DeviceHandle, unsigned*, void*>;
using Processes = std::map<std::uint32_t, GpuProcess>;

struct Entries {
  ReturnCode code = kSuccess;
  unsigned count = 0;
  std::vector<std::byte> bytes;
};

Entries query_once(const ListCall& call, DeviceHandle device, unsigned capacity) {
  Entries entries;
  entries.bytes.assign(std::size_t{capacity} * kMaxEntryBytes, kUntouched);
  entries.count = capacity;
  entries.code = call(device, &entries.count, entries.bytes.data());
  if (entries.code == kSuccess && entries.count > capacity) entries.code = kUnknown;
  return entries;
}

Entries query_processes(const ListCall& call, DeviceHandle device) {
  unsigned count = 0;
  const ReturnCode code = call(device, &count, nullptr);
  if (code != kInsufficientSize) return {code, 0, {}};
  Entries entries;
  for (int attempt = 0; attempt < 2; ++attempt) {
    entries = query_once(call, device, std::min(count, ProcessListReader::kMaxProcesses) + kSlack);
    if (entries.code != kInsufficientSize) break;
    count = entries.count;
  }
  return entries;
}

// Returns the length of an entry; 0 if it cannot be found.
std::size_t stride_of(const Entries& entries) {
  const auto last = std::find_if(entries.bytes.rbegin(), entries.bytes.rend(),
                                 [](std::byte byte) { return byte != kUntouched; });
  const auto written = static_cast<std::size_t>(entries.bytes.rend() - last);
  for (const std::size_t stride :
       {sizeof(ProcessInfoV1), sizeof(ProcessInfo), sizeof(ProcessDetail)}) {
    if (written == stride * entries.count) return stride;
  }
  return 0;
}

void add(Processes& processes, const std::byte* entry, ProcessKind kind) {
  ProcessInfoV1 info;  // all layouts begin with it
  std::memcpy(&info, entry, sizeof info);
  constexpr unsigned long long kMaxMemoryBytes = 1ULL << 53U;
  GpuProcess process{info.pid, kind, {}, {}};
  if (info.used_memory <= kMaxMemoryBytes) {
    process.memory_bytes = static_cast<std::int64_t>(info.used_memory);
  }
  const auto [known, added] = processes.try_emplace(info.pid, process);
  if (!added && known->second.kind != kind) {
    known->second.kind = ProcessKind::compute_and_graphics;
    known->second.memory_bytes = std::max(known->second.memory_bytes, process.memory_bytes);
  }
}

// Reads one kind of process: counts it in its row and adds it to `processes`.
bool read_kind(const ListCall& call, DeviceHandle device, ProcessKind kind, Processes& processes,
               Recorder& record) {
  const Metric metric =
      kind == ProcessKind::compute ? Metric::processes_compute : Metric::processes_graphics;
  Entries entries;
  if (!record.try_query(metric, [&] { return (entries = query_processes(call, device)).code; }))
    return false;
  const std::size_t stride = entries.count > 0 ? stride_of(entries) : kMaxEntryBytes;
  if (stride == 0) {
    record.missing(metric,
                   {MissingReason::failed, "the driver's process list has an unknown layout"});
    return false;
  }
  record.value(metric, entries.count);
  for (std::size_t i = 0; i < entries.count; ++i) {
    add(processes, entries.bytes.data() + i * stride, kind);
  }
  return true;
}

// Adds the newest sample of each process since `last_seen_us`. A GPU without samples answers "not
// found".
void add_utilization(const Api& api, DeviceHandle device, unsigned long long& last_seen_us,
                     Processes& processes) {
  unsigned count = 0;
  if (api.process_utilization(device, nullptr, &count, last_seen_us) != kInsufficientSize) return;
  count = std::min(count, ProcessListReader::kMaxProcesses) + kSlack;
  std::vector<ProcessUtilization> samples(count);
  if (api.process_utilization(device, samples.data(), &count, last_seen_us) != kSuccess) return;
  samples.resize(std::min<std::size_t>(count, samples.size()));
  std::ranges::sort(samples, {}, &ProcessUtilization::timestamp_us);
  for (const ProcessUtilization& sample : samples) {
    last_seen_us = std::max(last_seen_us, sample.timestamp_us);
    const auto process = processes.find(sample.pid);
    if (process != processes.end() && sample.sm <= 100) {
      process->second.sm_percent = static_cast<std::int64_t>(sample.sm);
    }
  }
}

// Puts the sum into its row, unless the driver does not report the memory of one of them.
void sum_memory(const Processes& processes, Recorder& record) {
  constexpr std::int64_t kMaxMemorySum = std::int64_t{1} << 60U;  // whatever a driver says
  std::int64_t sum = 0;
  for (const auto& [pid, process] : processes) {
    if (!process.memory_bytes) {
      return record.missing(
          Metric::processes_memory,
          {MissingReason::not_supported, "the driver does not report the memory of every process"});
    }
    sum = std::min(sum + *process.memory_bytes, kMaxMemorySum);
  }
  record.value(Metric::processes_memory, sum);
}

std::vector<GpuProcess> largest(const Processes& processes) {
  std::vector<GpuProcess> list;
  list.reserve(processes.size());
  for (const auto& [pid, process] : processes) list.push_back(process);
  std::ranges::sort(list, [](const GpuProcess& a, const GpuProcess& b) {
    return std::tie(b.memory_bytes, a.pid) < std::tie(a.memory_bytes, b.pid);
  });
  if (list.size() > kMaxListedProcesses) list.resize(kMaxListedProcesses);
  return list;
}

}  // namespace

void ProcessListReader::read(const Api& api, DeviceHandle device, Recorder record) {
  Processes processes;
  read_kind(api.compute_processes, device, ProcessKind::compute, processes, record);
  read_kind(api.graphics_processes, device, ProcessKind::graphics, processes, record);
  // Half a list is no list, unless the board draws for no process at all.
  const Missing* const compute = record.sample().find(Metric::processes_compute)->missing();
  const Missing* const graphics = record.sample().find(Metric::processes_graphics)->missing();
  const bool draws = graphics == nullptr || graphics->reason != MissingReason::not_supported;
  const Missing* const why = compute != nullptr ? compute : draws ? graphics : nullptr;
  if (why != nullptr) {
    record.sample().set(ProcessList{record.taken(), *why});
    return record.missing(Metric::processes_memory, *why);
  }
  sum_memory(processes, record);
  if (!processes.empty()) add_utilization(api, device, last_seen_us_, processes);
  record.sample().set(ProcessList{record.taken(), largest(processes)});
}

}  // namespace gpuyard::nvml
