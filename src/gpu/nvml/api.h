// NVML as a table of function pointers, filled by dlsym or, in a test of one return code, by hand.
// Knows the symbols and their signatures, and nothing about the meaning of the answers.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "gpu/device/reading.h"
#include "gpu/nvml/abi.h"

namespace gpuyard::nvml {

// One symbol. If the library lacks it, this call alone answers FUNCTION_NOT_FOUND.
template <class... Args>
struct Call {
  ReturnCode (*function)(Args...) = nullptr;

  ReturnCode operator()(Args... args) const {
    return function != nullptr ? function(args...) : kFunctionNotFound;
  }
};

struct Api {
  Call<> init;
  Call<> shutdown;

  Call<char*, unsigned> driver_version;
  Call<char*, unsigned> nvml_version;
  Call<int*> cuda_driver_version;  // 12020 is 12.2

  Call<unsigned*> device_count;
  Call<unsigned, DeviceHandle*> handle_by_index;
  Call<DeviceHandle, char*, unsigned> name;
  Call<DeviceHandle, char*, unsigned> uuid;
  Call<DeviceHandle, PciInfo*> pci_info;

  Call<DeviceHandle, char*, unsigned> serial;
  Call<DeviceHandle, char*, unsigned> board_part_number;
  Call<DeviceHandle, char*, unsigned> vbios_version;
  Call<DeviceHandle, char*, unsigned> inforom_image_version;
  Call<DeviceHandle, unsigned*> brand;         // nvmlBrandType_t
  Call<DeviceHandle, unsigned*> architecture;  // nvmlDeviceArchitecture_t
  Call<DeviceHandle, int*, int*> compute_capability;
  Call<DeviceHandle, unsigned*> numa_node;  // of GPUs whose own memory is a node
  Call<DeviceHandle, unsigned*> minor_number;
  // words, bits of the nodes whose memory is nearest, nvmlAffinityScope_t
  Call<DeviceHandle, unsigned, unsigned long*, unsigned> memory_affinity;

  Call<DeviceHandle, MemoryV1*> memory_info;
  Call<DeviceHandle, MemoryV2*> memory_info_v2;
  Call<DeviceHandle, Bar1Memory*> bar1_memory_info;
  Call<DeviceHandle, Utilization*> utilization_rates;
  Call<DeviceHandle, TemperatureV1*> temperature_v;
  Call<DeviceHandle, unsigned, unsigned*> temperature;               // sensor, C
  Call<DeviceHandle, unsigned, unsigned*> temperature_threshold;     // C
  Call<DeviceHandle, unsigned*> power_usage;                         // mW
  Call<DeviceHandle, unsigned*> power_limit;                         // mW, as set
  Call<DeviceHandle, unsigned*> power_default_limit;                 // mW
  Call<DeviceHandle, unsigned*, unsigned*> power_limit_constraints;  // mW: least, most
  Call<DeviceHandle, unsigned*> enforced_power_limit;                // mW
  Call<DeviceHandle, unsigned long long*> total_energy_consumption;  // mJ
  Call<DeviceHandle, unsigned, unsigned*> clock_info;                // nvmlClockType_t, MHz
  Call<DeviceHandle, unsigned, unsigned*> max_clock_info;
  Call<DeviceHandle, unsigned long long*> throttle_reasons;
  Call<DeviceHandle, int*> performance_state;
  Call<DeviceHandle, unsigned*, unsigned*> encoder_utilization;  // percent, sample period in us
  Call<DeviceHandle, unsigned*, unsigned*> decoder_utilization;
  Call<DeviceHandle, unsigned*> fan_count;
  Call<DeviceHandle, unsigned, unsigned*> fan_speed;  // which fan, percent
  Call<DeviceHandle, unsigned*> first_fan_speed;      // for libraries that know only one fan
  Call<DeviceHandle, int, FieldValue*> field_values;

  Call<DeviceHandle, unsigned*> pcie_generation;
  Call<DeviceHandle, unsigned*> pcie_width;
  Call<DeviceHandle, unsigned*> max_pcie_generation;
  Call<DeviceHandle, unsigned*> max_pcie_width;
  Call<DeviceHandle, unsigned, unsigned*> pcie_throughput;  // blocks for 20 ms; KB/s
  Call<DeviceHandle, unsigned*> pcie_replays;
  Call<DeviceHandle, unsigned, unsigned*> nvlink_state;        // link; 1 is up
  Call<DeviceHandle, unsigned, unsigned*> nvlink_remote_type;  // link
  Call<DeviceHandle, unsigned, PciInfo*> nvlink_remote_pci;    // link

  Call<DeviceHandle, unsigned*, unsigned*> ecc_mode;  // current, pending
  // error type, counter type
  Call<DeviceHandle, unsigned, unsigned, unsigned long long*> total_ecc_errors;
  // error type, counter type, location
  Call<DeviceHandle, unsigned, unsigned, unsigned, unsigned long long*> memory_error_counter;
  // corrected, uncorrected, pending, failure
  Call<DeviceHandle, unsigned*, unsigned*, unsigned*, unsigned*> remapped_rows;
  Call<DeviceHandle, unsigned, unsigned*, unsigned long long*> retired_pages;  // cause, count
  Call<DeviceHandle, unsigned*> retired_pages_pending;

  Call<DeviceHandle, unsigned*> persistence_mode;
  Call<DeviceHandle, unsigned*> compute_mode;
  Call<DeviceHandle, unsigned*, unsigned*> mig_mode;  // current, pending

  // Settings. The lists take the room in entries and return the count; MHz.
  Call<DeviceHandle, unsigned*, unsigned*> supported_memory_clocks;
  Call<DeviceHandle, unsigned, unsigned*, unsigned*> supported_graphics_clocks;  // memory clock
  Call<DeviceHandle, unsigned*> default_ecc_mode;
  Call<DeviceHandle, unsigned> set_power_limit;           // mW
  Call<DeviceHandle, unsigned, unsigned> set_gpu_clocks;  // MHz: lowest, highest
  Call<DeviceHandle> reset_gpu_clocks;
  Call<DeviceHandle, unsigned, unsigned> set_memory_clocks;
  Call<DeviceHandle> reset_memory_clocks;
  Call<DeviceHandle, unsigned> set_persistence_mode;
  Call<DeviceHandle, unsigned> set_compute_mode;
  Call<DeviceHandle, unsigned> set_ecc_mode;
  Call<DeviceHandle, unsigned> clear_ecc_counts;  // counter type

  Call<DeviceHandle, GpmSupport*> gpm_support;
  Call<GpmSample*> gpm_sample_alloc;
  Call<GpmSample> gpm_sample_free;
  Call<DeviceHandle, GpmSample> gpm_sample_get;
  Call<GpmMetricsGet*> gpm_metrics_get;

  Call<EventSet*> event_set_create;
  Call<EventSet> event_set_free;
  Call<DeviceHandle, unsigned long long*> supported_event_types;
  Call<DeviceHandle, unsigned long long, EventSet> register_events;
  Call<EventSet, EventData*, unsigned> event_set_wait;  // ms

  // The length of an entry differs between drivers: see process_list.h.
  Call<DeviceHandle, unsigned*, void*> compute_processes;
  Call<DeviceHandle, unsigned*, void*> graphics_processes;
  // samples newer than a time stamp
  Call<DeviceHandle, ProcessUtilization*, unsigned*, unsigned long long> process_utilization;
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
