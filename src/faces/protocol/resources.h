// The bodies of the REST API. Field names are contract: they may be added to, not changed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json_shape.h"
#include "base/record.h"
#include "faces/protocol/answer.h"
#include "faces/protocol/processes.h"
#include "faces/protocol/readings.h"
#include "gpu/device/bottleneck.h"
#include "gpu/device/health.h"
#include "gpu/device/snapshot.h"
#include "gpuyard/gpu_device.h"

namespace gpuyard {

BOOST_DESCRIBE_STRUCT(GPUDevice, (),
                      (index, name, total_memory_mb, free_memory_mb, used_memory_mb,
                       utilization_percent, temperature_c, is_available, error_message))
GPUYARD_ABOUT(
    GPUDevice, {"index", "NVML index of the GPU."},
    {"total_memory_mb", "Installed memory, MiB, rounded down."},
    {"free_memory_mb", "Unallocated memory, MiB, rounded down."},
    {"used_memory_mb",
     "Total minus free, MiB, rounded down: all processes and the driver's reserve."},
    {"utilization_percent",
     "Share of the driver's sample period in which a kernel was resident; null if not supported."},
    {"temperature_c", "Core temperature, degrees Celsius."},
    {"is_available",
     "False when the GPU cannot be opened, named, or its memory read in time; then readings are "
     "null."},
    {"error_message", "Why the GPU is not available."})

GPUYARD_ABOUT(Bottleneck, {"cause", "Cause of the bottleneck; the first in the list that applies."},
              {"inferred", "True if inferred rather than reported by the driver."},
              {"share_percent",
               "Share of the last minute in which it applied; null if it is a state of the GPU."},
              {"brief", "Description of a few words, at most 24 columns."},
              {"text", "Description as a sentence that begins with the GPU's name."},
              {"advice", "Recommended action; may be empty."},
              {"not_known", "Causes that could not be assessed, with the reason."})

BOOST_DESCRIBE_STRUCT(XidCount, (), (xid, count, last_seen))
GPUYARD_ABOUT(XidCount, {"xid", "Xid; null: all Xids beyond the first 16 different ones of a GPU."},
              {"last_seen", "RFC 3339."})

}  // namespace gpuyard

namespace gpuyard::protocol {

using gpuyard::GPUDevice;

struct GPUDevicesResponse {
  std::vector<GPUDevice> devices;
  std::uint64_t count = 0;
};
BOOST_DESCRIBE_STRUCT(GPUDevicesResponse, (), (devices, count))

struct DriverInfo {
  std::optional<std::string> driver_version;
  std::optional<std::string> cuda_driver_version;
  std::optional<std::string> nvml_version;
};
BOOST_DESCRIBE_STRUCT(DriverInfo, (), (driver_version, cuda_driver_version, nvml_version))
GPUYARD_ABOUT(DriverInfo, {"cuda_driver_version", "Highest CUDA version that the driver supports."})

struct Device {
  std::uint32_t index = 0;
  std::string uuid;
  std::string pci_address;
  std::string name;
  DeviceCondition condition = DeviceCondition::responsive;
  std::optional<std::string> why;
  std::optional<gpuyard::Health> health;
  std::vector<std::string> health_reasons;
  Sample readings;
  std::optional<std::vector<Process>> processes;
  Reasons missing;
  std::optional<std::int64_t> age_ms;
  std::optional<std::int64_t> asleep_ms;
  std::optional<std::vector<XidCount>> xid_errors;
  std::optional<gpuyard::Bottleneck> bottleneck;
};
BOOST_DESCRIBE_STRUCT(Device, (),
                      (index, uuid, pci_address, name, condition, why, health, health_reasons,
                       readings, processes, missing, age_ms, asleep_ms, xid_errors, bottleneck))
GPUYARD_ABOUT(
    Device, {"health", "Health of the GPU; null while unknown."},
    {"health_reasons", "Why the GPU is not healthy, or what is unknown."},
    {"age_ms", "Age of the oldest of the readings that are taken every second, milliseconds."},
    {"asleep_ms",
     "How long the kernel has had the idle GPU suspended, milliseconds; null while it is not."},
    {"processes", "Processes on the GPU; at most the 1024 with the most memory."},
    {"missing", "For each reading that is null: its key, and why it is null."},
    {"xid_errors", "Driver errors by Xid, since the daemon started; null without a daemon."},
    {"bottleneck",
     "Bottleneck of the last minute; null without a daemon. For a past time: the peak of the "
     "active spell; null, with a reason in missing, if not assessed."})

struct SnapshotQuery {
  std::optional<std::string> at;
};
BOOST_DESCRIBE_STRUCT(SnapshotQuery, (), (at))
GPUYARD_ABOUT(SnapshotQuery, {"at",
                              "How long ago (90s, 2h, 7d), a time such as 2026-01-31T12:00:00Z, or "
                              "seconds since 1970. Default: now."})

// The source of the readings of a past moment.
enum class PastResolution : std::uint8_t { nothing, reading, ten_seconds, minute };
BOOST_DESCRIBE_ENUM(PastResolution, nothing, reading, ten_seconds, minute)

struct Past {
  std::string at;
  PastResolution resolution = PastResolution::nothing;
  std::vector<std::string> notes;
};
BOOST_DESCRIBE_STRUCT(Past, (), (at, resolution, notes))
GPUYARD_ABOUT(Past, {"at", "The requested time."},
              {"resolution",
               "Lowest resolution of the values: readings, or means of ten seconds or a minute; "
               "nothing if there is no data."},
              {"notes", "Remarks on the data, such as a full disk or a clock change."})

struct Snapshot : AnswerHead {
  std::uint64_t generation = 0;
  std::string taken_at;
  bool driver_initialised = false;
  std::optional<std::string> driver_error;
  DriverInfo driver;
  std::vector<Device> devices;
  std::optional<Past> past;
};
BOOST_DESCRIBE_STRUCT(Snapshot, (AnswerHead),
                      (generation, taken_at, driver_initialised, driver_error, driver, devices,
                       past))
GPUYARD_ABOUT(
    Snapshot,
    {"past",
     "Null for the newest snapshot. For a past time: the stored data. GPU names are the current "
     "ones, memory_bytes of a process is its peak, and readings without history are missing."})

// The processes of one GPU.
struct DeviceProcesses {
  int schema = kSchemaVersion;
  std::uint32_t index = 0;
  std::string uuid;
  std::string pci_address;
  std::optional<std::vector<ProcessWithArguments>> processes;
  Reasons missing;
  std::optional<std::int64_t> age_ms;
};
BOOST_DESCRIBE_STRUCT(DeviceProcesses, (),
                      (schema, index, uuid, pci_address, processes, missing, age_ms))
GPUYARD_ABOUT(DeviceProcesses,
              {"processes",
               "At most the 1024 with the most memory; null if not reported by the driver."},
              {"missing", "Why the list is missing; null if it is not."},
              {"age_ms", "Age of the list, milliseconds; it is read every five seconds."})

struct DeviceName {
  std::string id;
};
BOOST_DESCRIBE_STRUCT(DeviceName, (), (id))
GPUYARD_ABOUT(DeviceName, {"id", "Index, UUID or PCI address of a GPU."})

struct AssetName {
  std::string file;
};
BOOST_DESCRIBE_STRUCT(AssetName, (), (file))
GPUYARD_ABOUT(AssetName, {"file", "File that the page refers to."})

struct Health {
  std::string status;
  std::string version;
};
BOOST_DESCRIBE_STRUCT(Health, (), (status, version))

struct Readiness {
  bool ready = false;
  std::string reason;
  bool cuda_available = false;
  std::uint64_t gpus = 0;
  bool simulated = false;
  std::vector<std::string> notes;
  std::optional<std::string> now;
  std::optional<bool> reads_kernel_log;
  std::optional<std::vector<std::string>> lacks;
};
BOOST_DESCRIBE_STRUCT(Readiness, (),
                      (ready, reason, cuda_available, gpus, simulated, notes, now, reads_kernel_log,
                       lacks))
GPUYARD_ABOUT(Readiness, {"now", "Clock of the machine, RFC 3339; null from older daemons."},
              {"reads_kernel_log",
               "Whether Xids are also read from the kernel's log; null from older daemons, and for "
               "callers without read access."},
              {"lacks",
               "Restrictions and features that the daemon could not enable on this machine, and "
               "why; null from older daemons, and for callers without read access."},
              {"cuda_available", "NVML is initialised and there is at least one GPU."},
              {"reason",
               "Why it is or is not ready. Callers without read access get the state alone."},
              {"notes",
               "Other problems, for callers with read access, such as an old certificate that is "
               "still in use or a closed address."})

// Convert telemetry's records to the wire's.
DriverInfo driver_info_of(const gpuyard::DriverInfo&);
// `queried`: the probes that were read. Other readings of a GPU without a fault get no reason.
Device device_of(const DeviceState&, TimePoint now, const ProcessDirectory* = nullptr,
                 ProbeSet queried = ProbeSet::all());
DeviceProcesses device_processes_of(const DeviceState&, TimePoint now, const ProcessDirectory*,
                                    const ArgumentFilter&);
Snapshot snapshot_of(const gpuyard::Snapshot&, const ProcessDirectory* = nullptr,
                     ProbeSet queried = ProbeSet::all());
// The inverse of device_of(), of all but owners of processes, ages and Xids.
DeviceState state_of(const Device&);
Readiness readiness_of(const gpuyard::Snapshot&);

}  // namespace gpuyard::protocol

namespace gpuyard::json {

template <>
inline constexpr std::string_view schema_name<XidCount> = "XidErrors";
GPUYARD_SCHEMA(gpuyard::Bottleneck);
GPUYARD_SCHEMA(protocol::GPUDevice);
GPUYARD_SCHEMA(protocol::GPUDevicesResponse);
GPUYARD_SCHEMA(protocol::DriverInfo);
GPUYARD_SCHEMA(XidCount);
GPUYARD_SCHEMA(protocol::Device);
GPUYARD_SCHEMA(protocol::Past);
GPUYARD_SCHEMA(protocol::Snapshot);
GPUYARD_SCHEMA(protocol::DeviceProcesses);
GPUYARD_SCHEMA(protocol::Health);
GPUYARD_SCHEMA(protocol::Readiness);

}  // namespace gpuyard::json
