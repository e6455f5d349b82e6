// The part of NVML's binary interface that gpuyard speaks: return codes, constants and structs in
// our own names, with the sizes NVIDIA's library uses (nvml.h, API version 13). Shared by the
// backend, which calls it, and the simulated library, which answers it. Knows nothing else.
#pragma once

#include <cstdint>

namespace gpuyard::nvml {

using ReturnCode = int;

inline constexpr ReturnCode kSuccess = 0;
inline constexpr ReturnCode kUninitialized = 1;
inline constexpr ReturnCode kInvalidArgument = 2;
inline constexpr ReturnCode kNotSupported = 3;
inline constexpr ReturnCode kNoPermission = 4;
inline constexpr ReturnCode kAlreadyInitialized = 5;
inline constexpr ReturnCode kNotFound = 6;
inline constexpr ReturnCode kInsufficientSize = 7;
inline constexpr ReturnCode kInsufficientPower = 8;
inline constexpr ReturnCode kDriverNotLoaded = 9;
inline constexpr ReturnCode kTimeout = 10;
inline constexpr ReturnCode kIrqIssue = 11;
inline constexpr ReturnCode kLibraryNotFound = 12;
inline constexpr ReturnCode kFunctionNotFound = 13;
inline constexpr ReturnCode kCorruptedInforom = 14;
inline constexpr ReturnCode kGpuIsLost = 15;
inline constexpr ReturnCode kResetRequired = 16;
inline constexpr ReturnCode kOperatingSystem = 17;
inline constexpr ReturnCode kLibRmVersionMismatch = 18;
inline constexpr ReturnCode kInUse = 19;
inline constexpr ReturnCode kMemory = 20;
inline constexpr ReturnCode kNoData = 21;
inline constexpr ReturnCode kVgpuEccNotSupported = 22;
inline constexpr ReturnCode kInsufficientResources = 23;
inline constexpr ReturnCode kFreqNotSupported = 24;
inline constexpr ReturnCode kArgumentVersionMismatch = 25;
inline constexpr ReturnCode kDeprecated = 26;
inline constexpr ReturnCode kNotReady = 27;
inline constexpr ReturnCode kGpuNotFound = 28;
inline constexpr ReturnCode kInvalidState = 29;
inline constexpr ReturnCode kResetTypeNotSupported = 30;
inline constexpr ReturnCode kUnknown = 999;

// Opaque: only ever passed back to the library that made it.
struct DeviceHandleTag;
using DeviceHandle = DeviceHandleTag*;

inline constexpr unsigned kNameSize = 96;           // NVML_DEVICE_NAME_V2_BUFFER_SIZE
inline constexpr unsigned kUuidSize = 96;           // NVML_DEVICE_UUID_V2_BUFFER_SIZE
inline constexpr unsigned kDriverVersionSize = 80;  // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE
inline constexpr unsigned kNvmlVersionSize = 80;    // NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE

inline constexpr unsigned kTemperatureGpu = 0;  // NVML_TEMPERATURE_GPU

// nvmlClockType_t
inline constexpr unsigned kClockGraphics = 0;
inline constexpr unsigned kClockSm = 1;
inline constexpr unsigned kClockMemory = 2;
inline constexpr unsigned kClockVideo = 3;

struct MemoryV1 {
  unsigned long long total = 0;  // bytes
  unsigned long long free = 0;
  unsigned long long used = 0;  // includes what the driver reserves
};
static_assert(sizeof(MemoryV1) == 24);

// A versioned struct starts with its own size, and its version in the top byte.
struct MemoryV2 {
  unsigned version = 0x02000028;
  unsigned long long total = 0;  // bytes
  unsigned long long reserved = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;  // without `reserved`
};
static_assert(sizeof(MemoryV2) == 40);

struct Utilization {
  unsigned gpu = 0;     // percent of the sample period in which some kernel was resident
  unsigned memory = 0;  // percent of it in which memory was read or written
};
static_assert(sizeof(Utilization) == 8);

// What the unsuffixed call and _v2 write; PciInfo is _v3's.
struct PciInfoV1 {
  char bus_id[16] = {};
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
  unsigned pci_device_id = 0;
};
static_assert(sizeof(PciInfoV1) == 32);

struct PciInfoV2 {
  char bus_id[16] = {};
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
  unsigned pci_device_id = 0;
  unsigned pci_subsystem_id = 0;
  unsigned reserved[4] = {};
};
static_assert(sizeof(PciInfoV2) == 52);

struct PciInfo {
  char bus_id_legacy[16] = {};  // "0000:01:00.0"
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
  unsigned pci_device_id = 0;
  unsigned pci_subsystem_id = 0;
  char bus_id[32] = {};  // "00000000:01:00.0"
};
static_assert(sizeof(PciInfo) == 68);

struct TemperatureV1 {
  unsigned version = 0x0100000C;
  unsigned sensor = kTemperatureGpu;
  int celsius = 0;
};
static_assert(sizeof(TemperatureV1) == 12);

}  // namespace gpuyard::nvml
