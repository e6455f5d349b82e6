// NVML as a table of function pointers, filled by dlsym or, in a test of one return code, by hand.
// Knows the symbols and their signatures, and nothing about the meaning of the answers.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gpu/device/reading.h"
#include "gpu/nvml/abi.h"

namespace gpuyard::nvml {

// Returns the first of `names` that the library has, or null.
void* find_symbol(void* library, std::initializer_list<const char*> names);

// One symbol, under the newest of its names that the library has; all of them have one signature.
// If it has none, this call alone answers FUNCTION_NOT_FOUND.
template <class... Args>
struct Call {
  using Function = ReturnCode (*)(Args...);

  Call(Function own = nullptr) : function(own) {}  // NOLINT(google-explicit-constructor)
  template <class... Names>
  Call(void* library, Names... newest_first)
      : function(reinterpret_cast<Function>(find_symbol(library, {newest_first...}))) {}

  Function function;

  ReturnCode operator()(Args... args) const {
    return function != nullptr ? function(args...) : kFunctionNotFound;
  }
};

struct Api {
  void* library = nullptr;  // without one, no function is found

  Call<> init{library, "nvmlInit_v2", "nvmlInit"};
  Call<> shutdown{library, "nvmlShutdown"};

  Call<char*, unsigned> driver_version{library, "nvmlSystemGetDriverVersion"};
  Call<char*, unsigned> nvml_version{library, "nvmlSystemGetNVMLVersion"};
  // 12020 is 12.2
  Call<int*> cuda_driver_version{library, "nvmlSystemGetCudaDriverVersion_v2",
                                 "nvmlSystemGetCudaDriverVersion"};

  Call<unsigned*> device_count{library, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"};
  Call<unsigned, DeviceHandle*> handle_by_index{library, "nvmlDeviceGetHandleByIndex_v2",
                                                "nvmlDeviceGetHandleByIndex"};
  Call<DeviceHandle, char*, unsigned> name{library, "nvmlDeviceGetName"};
  Call<DeviceHandle, char*, unsigned> uuid{library, "nvmlDeviceGetUUID"};
  Call<DeviceHandle, PciInfo*> pci_info{library, "nvmlDeviceGetPciInfo_v3"};

  Call<DeviceHandle, char*, unsigned> serial{library, "nvmlDeviceGetSerial"};
  Call<DeviceHandle, char*, unsigned> board_part_number{library, "nvmlDeviceGetBoardPartNumber"};
  Call<DeviceHandle, char*, unsigned> vbios_version{library, "nvmlDeviceGetVbiosVersion"};
  Call<DeviceHandle, char*, unsigned> inforom_image_version{library,
                                                            "nvmlDeviceGetInforomImageVersion"};
  Call<DeviceHandle, unsigned*> brand{library, "nvmlDeviceGetBrand"};  // nvmlBrandType_t
  // nvmlDeviceArchitecture_t
  Call<DeviceHandle, unsigned*> architecture{library, "nvmlDeviceGetArchitecture"};
  Call<DeviceHandle, int*, int*> compute_capability{library, "nvmlDeviceGetCudaComputeCapability"};
  // of GPUs whose own memory is a node
  Call<DeviceHandle, unsigned*> numa_node{library, "nvmlDeviceGetNumaNodeId"};
  Call<DeviceHandle, unsigned*> minor_number{library, "nvmlDeviceGetMinorNumber"};
  // words, bits of the nodes whose memory is nearest, nvmlAffinityScope_t
  Call<DeviceHandle, unsigned, unsigned long*, unsigned> memory_affinity{
      library, "nvmlDeviceGetMemoryAffinity"};

  Call<DeviceHandle, MemoryV1*> memory_info{library, "nvmlDeviceGetMemoryInfo"};
  Call<DeviceHandle, MemoryV2*> memory_info_v2{library, "nvmlDeviceGetMemoryInfo_v2"};
  Call<DeviceHandle, Bar1Memory*> bar1_memory_info{library, "nvmlDeviceGetBAR1MemoryInfo"};
  Call<DeviceHandle, Utilization*> utilization_rates{library, "nvmlDeviceGetUtilizationRates"};
  Call<DeviceHandle, TemperatureV1*> temperature_v{library, "nvmlDeviceGetTemperatureV"};
  // sensor, C
  Call<DeviceHandle, unsigned, unsigned*> temperature{library, "nvmlDeviceGetTemperature"};
  // C
  Call<DeviceHandle, unsigned, unsigned*> temperature_threshold{
      library, "nvmlDeviceGetTemperatureThreshold"};
  Call<DeviceHandle, unsigned*> power_usage{library, "nvmlDeviceGetPowerUsage"};  // mW
  // mW, as set
  Call<DeviceHandle, unsigned*> power_limit{library, "nvmlDeviceGetPowerManagementLimit"};
  // mW
  Call<DeviceHandle, unsigned*> power_default_limit{library,
                                                    "nvmlDeviceGetPowerManagementDefaultLimit"};
  // mW: least, most
  Call<DeviceHandle, unsigned*, unsigned*> power_limit_constraints{
      library, "nvmlDeviceGetPowerManagementLimitConstraints"};
  // mW
  Call<DeviceHandle, unsigned*> enforced_power_limit{library, "nvmlDeviceGetEnforcedPowerLimit"};
  // mJ
  Call<DeviceHandle, unsigned long long*> total_energy_consumption{
      library, "nvmlDeviceGetTotalEnergyConsumption"};
  // nvmlClockType_t, MHz
  Call<DeviceHandle, unsigned, unsigned*> clock_info{library, "nvmlDeviceGetClockInfo"};
  Call<DeviceHandle, unsigned, unsigned*> max_clock_info{library, "nvmlDeviceGetMaxClockInfo"};
  Call<DeviceHandle, unsigned long long*> throttle_reasons{
      library, "nvmlDeviceGetCurrentClocksEventReasons",
      "nvmlDeviceGetCurrentClocksThrottleReasons"};
  Call<DeviceHandle, int*> performance_state{library, "nvmlDeviceGetPerformanceState"};
  // percent, sample period in us
  Call<DeviceHandle, unsigned*, unsigned*> encoder_utilization{library,
                                                               "nvmlDeviceGetEncoderUtilization"};
  Call<DeviceHandle, unsigned*, unsigned*> decoder_utilization{library,
                                                               "nvmlDeviceGetDecoderUtilization"};
  Call<DeviceHandle, unsigned*> fan_count{library, "nvmlDeviceGetNumFans"};
  // which fan, percent
  Call<DeviceHandle, unsigned, unsigned*> fan_speed{library, "nvmlDeviceGetFanSpeed_v2"};
  // for libraries that know only one fan
  Call<DeviceHandle, unsigned*> first_fan_speed{library, "nvmlDeviceGetFanSpeed"};
  Call<DeviceHandle, int, FieldValue*> field_values{library, "nvmlDeviceGetFieldValues"};

  Call<DeviceHandle, unsigned*> pcie_generation{library, "nvmlDeviceGetCurrPcieLinkGeneration"};
  Call<DeviceHandle, unsigned*> pcie_width{library, "nvmlDeviceGetCurrPcieLinkWidth"};
  Call<DeviceHandle, unsigned*> max_pcie_generation{library, "nvmlDeviceGetMaxPcieLinkGeneration"};
  Call<DeviceHandle, unsigned*> max_pcie_width{library, "nvmlDeviceGetMaxPcieLinkWidth"};
  // blocks for 20 ms; KB/s
  Call<DeviceHandle, unsigned, unsigned*> pcie_throughput{library, "nvmlDeviceGetPcieThroughput"};
  Call<DeviceHandle, unsigned*> pcie_replays{library, "nvmlDeviceGetPcieReplayCounter"};
  // link; 1 is up
  Call<DeviceHandle, unsigned, unsigned*> nvlink_state{library, "nvmlDeviceGetNvLinkState"};
  // link
  Call<DeviceHandle, unsigned, unsigned*> nvlink_remote_type{library,
                                                             "nvmlDeviceGetNvLinkRemoteDeviceType"};
  // link
  Call<DeviceHandle, unsigned, PciInfo*> nvlink_remote_pci{library,
                                                           "nvmlDeviceGetNvLinkRemotePciInfo_v2"};

  // current, pending
  Call<DeviceHandle, unsigned*, unsigned*> ecc_mode{library, "nvmlDeviceGetEccMode"};
  // error type, counter type
  Call<DeviceHandle, unsigned, unsigned, unsigned long long*> total_ecc_errors{
      library, "nvmlDeviceGetTotalEccErrors"};
  // error type, counter type, location
  Call<DeviceHandle, unsigned, unsigned, unsigned, unsigned long long*> memory_error_counter{
      library, "nvmlDeviceGetMemoryErrorCounter"};
  // corrected, uncorrected, pending, failure
  Call<DeviceHandle, unsigned*, unsigned*, unsigned*, unsigned*> remapped_rows{
      library, "nvmlDeviceGetRemappedRows"};
  // cause, count
  Call<DeviceHandle, unsigned, unsigned*, unsigned long long*> retired_pages{
      library, "nvmlDeviceGetRetiredPages"};
  Call<DeviceHandle, unsigned*> retired_pages_pending{library,
                                                      "nvmlDeviceGetRetiredPagesPendingStatus"};

  Call<DeviceHandle, unsigned*> persistence_mode{library, "nvmlDeviceGetPersistenceMode"};
  Call<DeviceHandle, unsigned*> compute_mode{library, "nvmlDeviceGetComputeMode"};
  // current, pending
  Call<DeviceHandle, unsigned*, unsigned*> mig_mode{library, "nvmlDeviceGetMigMode"};

  // Settings. The lists take the room in entries and return the count; MHz.
  Call<DeviceHandle, unsigned*, unsigned*> supported_memory_clocks{
      library, "nvmlDeviceGetSupportedMemoryClocks"};
  // memory clock
  Call<DeviceHandle, unsigned, unsigned*, unsigned*> supported_graphics_clocks{
      library, "nvmlDeviceGetSupportedGraphicsClocks"};
  Call<DeviceHandle, unsigned*> default_ecc_mode{library, "nvmlDeviceGetDefaultEccMode"};
  // Its _v2 has another signature, and we need no scope but this one's.
  Call<DeviceHandle, unsigned> set_power_limit{library, "nvmlDeviceSetPowerManagementLimit"};  // mW
  // MHz: lowest, highest
  Call<DeviceHandle, unsigned, unsigned> set_gpu_clocks{library, "nvmlDeviceSetGpuLockedClocks"};
  Call<DeviceHandle> reset_gpu_clocks{library, "nvmlDeviceResetGpuLockedClocks"};
  Call<DeviceHandle, unsigned, unsigned> set_memory_clocks{library,
                                                           "nvmlDeviceSetMemoryLockedClocks"};
  Call<DeviceHandle> reset_memory_clocks{library, "nvmlDeviceResetMemoryLockedClocks"};
  Call<DeviceHandle, unsigned> set_persistence_mode{library, "nvmlDeviceSetPersistenceMode"};
  Call<DeviceHandle, unsigned> set_compute_mode{library, "nvmlDeviceSetComputeMode"};
  Call<DeviceHandle, unsigned> set_ecc_mode{library, "nvmlDeviceSetEccMode"};
  // counter type
  Call<DeviceHandle, unsigned> clear_ecc_counts{library, "nvmlDeviceClearEccErrorCounts"};

  Call<DeviceHandle, GpmSupport*> gpm_support{library, "nvmlGpmQueryDeviceSupport"};
  Call<GpmSample*> gpm_sample_alloc{library, "nvmlGpmSampleAlloc"};
  Call<GpmSample> gpm_sample_free{library, "nvmlGpmSampleFree"};
  Call<DeviceHandle, GpmSample> gpm_sample_get{library, "nvmlGpmSampleGet"};
  Call<GpmMetricsGet*> gpm_metrics_get{library, "nvmlGpmMetricsGet"};

  Call<EventSet*> event_set_create{library, "nvmlEventSetCreate"};
  Call<EventSet> event_set_free{library, "nvmlEventSetFree"};
  Call<DeviceHandle, unsigned long long*> supported_event_types{library,
                                                                "nvmlDeviceGetSupportedEventTypes"};
  Call<DeviceHandle, unsigned long long, EventSet> register_events{library,
                                                                   "nvmlDeviceRegisterEvents"};
  // The older one writes only the beginning of the newer one's struct.
  // ms
  Call<EventSet, EventData*, unsigned> event_set_wait{library, "nvmlEventSetWait_v2",
                                                      "nvmlEventSetWait"};

  // The length of an entry differs between drivers: see process_list.h.
  Call<DeviceHandle, unsigned*, void*> compute_processes{
      library, "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",
      "nvmlDeviceGetComputeRunningProcesses"};
  Call<DeviceHandle, unsigned*, void*> graphics_processes{
      library, "nvmlDeviceGetGraphicsRunningProcesses_v3",
      "nvmlDeviceGetGraphicsRunningProcesses_v2", "nvmlDeviceGetGraphicsRunningProcesses"};
  // samples newer than a time stamp
  Call<DeviceHandle, ProcessUtilization*, unsigned*, unsigned long long> process_utilization{
      library, "nvmlDeviceGetProcessUtilization"};
};

struct Library {
  Api api;
  std::string path;        // of the file that was loaded
  bool simulated = false;  // it has a symbol that no real driver has
  // Set for the simulated library only: returns whether its time runs otherwise than ours.
  int (*has_own_time)() = nullptr;
};

// Loads `path`; if that is empty, libnvidia-ml.so.1 and then libnvidia-ml.so from the loader's
// path. The library is never unloaded, because a thread may be blocked inside it for ever. Error:
// init_error("NVML Shared Library Not Found"), or with the loader's words for a `path`.
Result<Library> load_library(const std::string& path);

// Returns NVML's own words for a code ("Unknown Error"), even without a library to ask.
std::string_view text_of(ReturnCode);

MissingReason missing_reason_of(ReturnCode);
Errc errc_of(ReturnCode);

inline Missing missing_of(ReturnCode code) {
  return {missing_reason_of(code), std::string(text_of(code))};
}

}  // namespace gpuyard::nvml
