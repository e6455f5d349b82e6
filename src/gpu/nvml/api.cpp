#include "gpu/nvml/api.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <initializer_list>

#include "gpu/device/error.h"

namespace gpuyard::nvml {
namespace {

// Binds the first of `names` that the library has, newest suffix first. All names share one
// signature.
template <class... Args>
void bind(void* library, Call<Args...>& call, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (void* symbol = ::dlsym(library, name)) {
      call.function = reinterpret_cast<ReturnCode (*)(Args...)>(symbol);
      return;
    }
  }
}

void bind_identity(void* library, Api& api) {
  bind(library, api.serial, {"nvmlDeviceGetSerial"});
  bind(library, api.board_part_number, {"nvmlDeviceGetBoardPartNumber"});
  bind(library, api.vbios_version, {"nvmlDeviceGetVbiosVersion"});
  bind(library, api.inforom_image_version, {"nvmlDeviceGetInforomImageVersion"});
  bind(library, api.brand, {"nvmlDeviceGetBrand"});
  bind(library, api.architecture, {"nvmlDeviceGetArchitecture"});
  bind(library, api.compute_capability, {"nvmlDeviceGetCudaComputeCapability"});
  bind(library, api.numa_node, {"nvmlDeviceGetNumaNodeId"});
  bind(library, api.minor_number, {"nvmlDeviceGetMinorNumber"});
  bind(library, api.memory_affinity, {"nvmlDeviceGetMemoryAffinity"});
  bind(library, api.persistence_mode, {"nvmlDeviceGetPersistenceMode"});
  bind(library, api.compute_mode, {"nvmlDeviceGetComputeMode"});
  bind(library, api.mig_mode, {"nvmlDeviceGetMigMode"});
}

void bind_sensors(void* library, Api& api) {
  bind(library, api.memory_info, {"nvmlDeviceGetMemoryInfo"});
  bind(library, api.memory_info_v2, {"nvmlDeviceGetMemoryInfo_v2"});
  bind(library, api.bar1_memory_info, {"nvmlDeviceGetBAR1MemoryInfo"});
  bind(library, api.utilization_rates, {"nvmlDeviceGetUtilizationRates"});
  bind(library, api.encoder_utilization, {"nvmlDeviceGetEncoderUtilization"});
  bind(library, api.decoder_utilization, {"nvmlDeviceGetDecoderUtilization"});
  bind(library, api.temperature_v, {"nvmlDeviceGetTemperatureV"});
  bind(library, api.temperature, {"nvmlDeviceGetTemperature"});
  bind(library, api.temperature_threshold, {"nvmlDeviceGetTemperatureThreshold"});
  bind(library, api.power_usage, {"nvmlDeviceGetPowerUsage"});
  bind(library, api.power_limit, {"nvmlDeviceGetPowerManagementLimit"});
  bind(library, api.power_default_limit, {"nvmlDeviceGetPowerManagementDefaultLimit"});
  bind(library, api.power_limit_constraints, {"nvmlDeviceGetPowerManagementLimitConstraints"});
  bind(library, api.enforced_power_limit, {"nvmlDeviceGetEnforcedPowerLimit"});
  bind(library, api.total_energy_consumption, {"nvmlDeviceGetTotalEnergyConsumption"});
  bind(library, api.clock_info, {"nvmlDeviceGetClockInfo"});
  bind(library, api.max_clock_info, {"nvmlDeviceGetMaxClockInfo"});
  bind(library, api.throttle_reasons,
       {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  bind(library, api.performance_state, {"nvmlDeviceGetPerformanceState"});
  bind(library, api.fan_count, {"nvmlDeviceGetNumFans"});
  bind(library, api.fan_speed, {"nvmlDeviceGetFanSpeed_v2"});
  bind(library, api.first_fan_speed, {"nvmlDeviceGetFanSpeed"});
  bind(library, api.field_values, {"nvmlDeviceGetFieldValues"});
  bind(library, api.gpm_support, {"nvmlGpmQueryDeviceSupport"});
  bind(library, api.gpm_sample_alloc, {"nvmlGpmSampleAlloc"});
  bind(library, api.gpm_sample_free, {"nvmlGpmSampleFree"});
  bind(library, api.gpm_sample_get, {"nvmlGpmSampleGet"});
  bind(library, api.gpm_metrics_get, {"nvmlGpmMetricsGet"});
}

void bind_links(void* library, Api& api) {
  bind(library, api.pcie_generation, {"nvmlDeviceGetCurrPcieLinkGeneration"});
  bind(library, api.pcie_width, {"nvmlDeviceGetCurrPcieLinkWidth"});
  bind(library, api.max_pcie_generation, {"nvmlDeviceGetMaxPcieLinkGeneration"});
  bind(library, api.max_pcie_width, {"nvmlDeviceGetMaxPcieLinkWidth"});
  bind(library, api.pcie_throughput, {"nvmlDeviceGetPcieThroughput"});
  bind(library, api.pcie_replays, {"nvmlDeviceGetPcieReplayCounter"});
  bind(library, api.nvlink_state, {"nvmlDeviceGetNvLinkState"});
  bind(library, api.nvlink_remote_type, {"nvmlDeviceGetNvLinkRemoteDeviceType"});
  bind(library, api.nvlink_remote_pci, {"nvmlDeviceGetNvLinkRemotePciInfo_v2"});
}

void bind_memory_errors(void* library, Api& api) {
  bind(library, api.ecc_mode, {"nvmlDeviceGetEccMode"});
  bind(library, api.total_ecc_errors, {"nvmlDeviceGetTotalEccErrors"});
  bind(library, api.memory_error_counter, {"nvmlDeviceGetMemoryErrorCounter"});
  bind(library, api.remapped_rows, {"nvmlDeviceGetRemappedRows"});
  bind(library, api.retired_pages, {"nvmlDeviceGetRetiredPages"});
  bind(library, api.retired_pages_pending, {"nvmlDeviceGetRetiredPagesPendingStatus"});
}

void bind_processes(void* library, Api& api) {
  bind(library, api.compute_processes,
       {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",
        "nvmlDeviceGetComputeRunningProcesses"});
  bind(library, api.graphics_processes,
       {"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2",
        "nvmlDeviceGetGraphicsRunningProcesses"});
  bind(library, api.process_utilization, {"nvmlDeviceGetProcessUtilization"});
}

void bind_events(void* library, Api& api) {
  bind(library, api.event_set_create, {"nvmlEventSetCreate"});
  bind(library, api.event_set_free, {"nvmlEventSetFree"});
  bind(library, api.supported_event_types, {"nvmlDeviceGetSupportedEventTypes"});
  bind(library, api.register_events, {"nvmlDeviceRegisterEvents"});
  // The older one writes only the beginning of the newer one's struct.
  bind(library, api.event_set_wait, {"nvmlEventSetWait_v2", "nvmlEventSetWait"});
}

void bind_control(void* library, Api& api) {
  bind(library, api.supported_memory_clocks, {"nvmlDeviceGetSupportedMemoryClocks"});
  bind(library, api.supported_graphics_clocks, {"nvmlDeviceGetSupportedGraphicsClocks"});
  bind(library, api.default_ecc_mode, {"nvmlDeviceGetDefaultEccMode"});
  // Its _v2 has another signature, and we need no scope but this one's.
  bind(library, api.set_power_limit, {"nvmlDeviceSetPowerManagementLimit"});
  bind(library, api.set_gpu_clocks, {"nvmlDeviceSetGpuLockedClocks"});
  bind(library, api.reset_gpu_clocks, {"nvmlDeviceResetGpuLockedClocks"});
  bind(library, api.set_memory_clocks, {"nvmlDeviceSetMemoryLockedClocks"});
  bind(library, api.reset_memory_clocks, {"nvmlDeviceResetMemoryLockedClocks"});
  bind(library, api.set_persistence_mode, {"nvmlDeviceSetPersistenceMode"});
  bind(library, api.set_compute_mode, {"nvmlDeviceSetComputeMode"});
  bind(library, api.set_ecc_mode, {"nvmlDeviceSetEccMode"});
  bind(library, api.clear_ecc_counts, {"nvmlDeviceClearEccErrorCounts"});
}

Api bind_all(void* library) {
  Api api;
  bind(library, api.init, {"nvmlInit_v2", "nvmlInit"});
  bind(library, api.shutdown, {"nvmlShutdown"});
  bind(library, api.driver_version, {"nvmlSystemGetDriverVersion"});
  bind(library, api.nvml_version, {"nvmlSystemGetNVMLVersion"});
  bind(library, api.cuda_driver_version,
       {"nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"});
  bind(library, api.device_count, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"});
  bind(library, api.handle_by_index,
       {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"});
  bind(library, api.name, {"nvmlDeviceGetName"});
  bind(library, api.uuid, {"nvmlDeviceGetUUID"});
  bind(library, api.pci_info, {"nvmlDeviceGetPciInfo_v3"});
  bind_identity(library, api);
  bind_sensors(library, api);
  bind_links(library, api);
  bind_memory_errors(library, api);
  bind_processes(library, api);
  bind_events(library, api);
  bind_control(library, api);
  return api;
}

std::string path_of(void* library) {
  link_map* map = nullptr;
  if (::dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return "";
  char* resolved = ::realpath(map->l_name, nullptr);
  std::string path = resolved != nullptr ? resolved : map->l_name;
  std::free(resolved);
  return path;
}

struct Row {
  ReturnCode code;
  std::string_view text;
  MissingReason missing;
  Errc errc;
};

using enum MissingReason;

// The texts of nvmlErrorString; the simulated library has the same. The text of 24 is not verified.
constexpr std::array kCodes = {
    Row{kUninitialized, "Uninitialized", driver_gone, Errc::unavailable},
    Row{kInvalidArgument, "Invalid Argument", failed, Errc::invalid},
    Row{kNotSupported, "Not Supported", not_supported, Errc::unsupported},
    Row{kNoPermission, "Insufficient Permissions", no_permission, Errc::denied},
    Row{kAlreadyInitialized, "Already Initialized", failed, Errc::internal},
    Row{kNotFound, "Not Found", failed, Errc::not_found},
    Row{kInsufficientSize, "Insufficient Size", failed, Errc::internal},
    Row{kInsufficientPower, "Insufficient External Power", failed, Errc::unavailable},
    Row{kDriverNotLoaded, "Driver Not Loaded", driver_gone, Errc::unavailable},
    Row{kTimeout, "Timeout", failed, Errc::timed_out},
    Row{kIrqIssue, "Interrupt Request Issue", failed, Errc::unavailable},
    Row{kLibraryNotFound, "NVML Shared Library Not Found", failed, Errc::unavailable},
    Row{kFunctionNotFound, "Function Not Found", not_supported, Errc::unsupported},
    Row{kCorruptedInforom, "Corrupted infoROM", failed, Errc::internal},
    Row{kGpuIsLost, "GPU is lost", device_lost, Errc::device_lost},
    Row{kResetRequired, "GPU requires reset", device_lost, Errc::device_lost},
    Row{kOperatingSystem, "GPU access blocked by the operating system", no_permission,
        Errc::denied},
    Row{kLibRmVersionMismatch, "Driver/library version mismatch", driver_gone, Errc::unavailable},
    Row{kInUse, "In use by another client", failed, Errc::conflict},
    Row{kMemory, "Insufficient Memory", failed, Errc::internal},
    Row{kNoData, "No data", not_ready, Errc::unavailable},
    Row{kVgpuEccNotSupported,
        "The requested vGPU operation is not available on target device, because ECC is enabled",
        not_supported, Errc::unsupported},
    Row{kInsufficientResources, "Insufficient Resources", failed, Errc::unavailable},
    Row{kFreqNotSupported, "Frequency not supported", not_supported, Errc::unsupported},
    Row{kArgumentVersionMismatch, "Argument version mismatch", not_supported, Errc::unsupported},
    Row{kDeprecated, "The requested functionality has been deprecated", not_supported,
        Errc::unsupported},
    Row{kNotReady, "System is not in ready state", not_ready, Errc::unavailable},
    Row{kGpuNotFound, "No GPUs were found", device_lost, Errc::device_lost},
    Row{kInvalidState, "Resource not in correct state to perform requested operation", failed,
        Errc::conflict},
    Row{kResetTypeNotSupported, "Reset not supported for given device/parameters", not_supported,
        Errc::unsupported},
    Row{kUnknown, "Unknown Error", failed, Errc::internal},
};

const Row& row_of(ReturnCode code) {
  const auto row = std::ranges::find(kCodes, code, &Row::code);
  return row != kCodes.end() ? *row : kCodes.back();
}

}  // namespace

Result<Library> load_library(const std::string& path) {
  void* library = nullptr;
  if (!path.empty()) {
    library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return init_error(::dlerror());
  } else {
    library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) library = ::dlopen("libnvidia-ml.so", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return init_error(text_of(kLibraryNotFound));
  }
  return Library{bind_all(library), path_of(library),
                 ::dlsym(library, "gpuyard_simulates") != nullptr,
                 reinterpret_cast<int (*)()>(::dlsym(library, "gpuyard_has_own_time"))};
}

std::string_view text_of(ReturnCode code) {
  return code == kSuccess ? "Success" : row_of(code).text;
}
MissingReason missing_reason_of(ReturnCode code) {
  return row_of(code).missing;
}
Errc errc_of(ReturnCode code) {
  return row_of(code).errc;
}

}  // namespace gpuyard::nvml
