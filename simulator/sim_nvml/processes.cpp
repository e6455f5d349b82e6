// The processes on a GPU. Each list has three generations with two layouts: writing the newer
// layout into an older caller's buffer would overflow it.

#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using namespace gpuyard::sim_nvml;
using sim::Call;
using sim::ProcessKind;
using sim::ProcessUse;

enum class List { compute, graphics, mps };

bool is_on_list(const ProcessUse& process, List list) {
  if (list == List::mps) return false;  // no simulated process uses an MPS server
  return (process.kind == ProcessKind::compute) == (list == List::compute);
}

// Empty, not an empty list, if the world kept changing during the read.
std::optional<std::vector<ProcessUse>> processes_on(const Device& device, List list) {
  auto processes = device.driver.world().processes(device.place, device.record);
  if (processes) std::erase_if(*processes, [&](const auto& p) { return !is_on_list(p, list); });
  return processes;
}

template <class Entry>
ReturnCode put_processes(const Device& device, List list, unsigned* count, Entry* out) {
  const auto processes = processes_on(device, list);
  if (!processes) return kUnknown;
  return put_list(*processes, count, out, [](const ProcessUse& process) {
    return Entry{.pid = process.pid, .used_memory = process.memory_bytes};
  });
}

template <class Entry>
ReturnCode list_processes(DeviceHandle handle, List list, unsigned* count, Entry* out) {
  return on_device(Call::processes, handle, is_list(count, out),
                   [&](const Device& device) { return put_processes(device, list, count, out); });
}

// Drivers of one branch disagree about the layout of the newest lists' entries, and a caller cannot
// say which layout it expects.
ReturnCode list_newest(DeviceHandle handle, List list, unsigned* count, void* out) {
  return on_device(Call::processes, handle, is_list(count, out), [&](const Device& device) {
    switch (device.driver.process_entry_bytes()) {
      case sizeof(ProcessInfoV1):
        return put_processes(device, list, count, static_cast<ProcessInfoV1*>(out));
      case sizeof(ProcessDetail):
        return put_processes(device, list, count, static_cast<ProcessDetail*>(out));
      default:
        return put_processes(device, list, count, static_cast<ProcessInfo*>(out));
    }
  });
}

}  // namespace

#define SIM_NVML_PROCESS_LIST(name, list)                                            \
  SIM_NVML_ENTRY name(DeviceHandle handle, unsigned* count, ProcessInfoV1* out) {    \
    return list_processes(handle, list, count, out);                                 \
  }                                                                                  \
  SIM_NVML_ENTRY name##_v2(DeviceHandle handle, unsigned* count, ProcessInfo* out) { \
    return list_processes(handle, list, count, out);                                 \
  }                                                                                  \
  SIM_NVML_ENTRY name##_v3(DeviceHandle handle, unsigned* count, ProcessInfo* out) { \
    return list_newest(handle, list, count, out);                                    \
  }

SIM_NVML_PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses, List::compute)
SIM_NVML_PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses, List::graphics)
SIM_NVML_PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses, List::mps)

SIM_NVML_ENTRY nvmlDeviceGetRunningProcessDetailList(DeviceHandle handle, ProcessDetailList* out) {
  return on_device(Call::processes, handle, out != nullptr, [&](const Device& device) {
    if (out->version != ProcessDetailList{}.version) return kArgumentVersionMismatch;
    const bool known = out->mode <= static_cast<unsigned>(List::mps);
    if (!known || !is_list(&out->count, out->entries)) return kInvalidArgument;
    return put_processes(device, static_cast<List>(out->mode), &out->count, out->entries);
  });
}

// Returns the program of any process of this machine, on a GPU or not. A synthetic process has
// none.
SIM_NVML_ENTRY nvmlSystemGetProcessName(unsigned pid, char* out, unsigned size) {
  if (session().driver() == nullptr) return kUninitialized;
  if (out == nullptr || size == 0) return kInvalidArgument;
  char path[40];
  std::snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return kNotFound;
  char name[4096];
  const std::size_t length = std::fread(name, 1, sizeof name - 1, file);
  std::fclose(file);
  name[length] = '\0';  // the first argument ends at its own zero, earlier
  if (length == 0) return kNotFound;
  std::snprintf(out, size, "%s", name);
  return kSuccess;
}
