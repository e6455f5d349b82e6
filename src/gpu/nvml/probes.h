// Asks NVML for each probe and turns the answers into readings; one function for each probe that
// needs nothing but the driver. The probes that keep state between two runs are in gpu_reader.h and
// process_list.h.
#pragma once

#include <string>
#include <vector>

#include "gpu/nvml/api.h"
#include "gpu/nvml/recorder.h"

namespace gpuyard::nvml {

// The numbers of three fields, which differ between versions of the library. They are not read from
// an older or unknown version.
struct ThrottleTimeFields {
  unsigned sw_thermal = 0;
  unsigned hw_thermal = 0;
  unsigned power_brake = 0;

  bool is_known() const { return sw_thermal != 0; }
};
// Chooses by nvmlSystemGetCudaDriverVersion's number: 12090 for 12.9.
ThrottleTimeFields throttle_time_fields(int cuda_version);

void read_memory(const Api&, DeviceHandle, Recorder);
void read_bar1(const Api&, DeviceHandle, Recorder);
void read_utilization(const Api&, DeviceHandle, Recorder);
void read_engines(const Api&, DeviceHandle, Probe, Recorder);
void read_temperature(const Api&, DeviceHandle, Recorder);
void read_temperature_limits(const Api&, DeviceHandle, Recorder);
void read_power_bounds(const Api&, DeviceHandle, Recorder);
void read_clocks(const Api&, DeviceHandle, Probe, Recorder);
void read_fans(const Api&, DeviceHandle, Recorder);

// Rows that are each one field of nvmlDeviceGetFieldValues.
void read_power_fields(const Api&, DeviceHandle, Recorder);
void read_memory_temperature(const Api&, DeviceHandle, Recorder);
void read_throttle_times(const Api&, DeviceHandle, const ThrottleTimeFields&, Recorder);
void read_recovery_action(const Api&, DeviceHandle, Recorder);
void read_nvlink_traffic(const Api&, DeviceHandle, Recorder);

void read_pcie_throughput(const Api&, DeviceHandle, Probe, Recorder);
void read_nvlink_state(const Api&, DeviceHandle, Recorder);

void read_ecc_totals(const Api&, DeviceHandle, Recorder);
void read_ecc_locations(const Api&, DeviceHandle, Recorder);
void read_row_remaps(const Api&, DeviceHandle, Recorder);
void read_retired_pages(const Api&, DeviceHandle, Recorder);

void read_modes(const Api&, DeviceHandle, Recorder);
void read_inventory(const Api&, DeviceHandle, Recorder);

// Returns DeviceInfo::nvlinks; also empty if the driver does not report it.
std::vector<std::string> nvlink_peers(const Api&, DeviceHandle);

}  // namespace gpuyard::nvml
