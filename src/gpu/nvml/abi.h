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

// Opaque: only passed back to the library that made it.
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
  unsigned long long used = 0;  // includes the driver's reserve
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

// Written by the unsuffixed call and _v2; PciInfo is that of _v3.
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

// Opaque too: two of them make a measurement.
struct GpmSampleTag;
using GpmSample = GpmSampleTag*;

inline constexpr unsigned kSerialSize = 30;     // NVML_DEVICE_SERIAL_BUFFER_SIZE
inline constexpr unsigned kVbiosSize = 32;      // NVML_DEVICE_VBIOS_VERSION_BUFFER_SIZE
inline constexpr unsigned kInforomSize = 16;    // NVML_DEVICE_INFOROM_VERSION_BUFFER_SIZE
inline constexpr unsigned kBoardPartSize = 80;  // NVML_DEVICE_PART_NUMBER_BUFFER_SIZE
inline constexpr unsigned kMaxNvlinks = 18;     // NVML_NVLINK_MAX_LINKS

// nvmlTemperatureThresholds_t
inline constexpr unsigned kThresholdShutdown = 0;
inline constexpr unsigned kThresholdSlowdown = 1;
inline constexpr unsigned kThresholdMemoryMax = 2;
inline constexpr unsigned kThresholdGpuMax = 3;

// nvmlPcieUtilCounter_t; the answer is in KB/s
inline constexpr unsigned kPcieTx = 0;
inline constexpr unsigned kPcieRx = 1;

// nvmlMemoryErrorType_t and nvmlEccCounterType_t
inline constexpr unsigned kEccCorrected = 0;
inline constexpr unsigned kEccUncorrected = 1;
inline constexpr unsigned kEccVolatile = 0;   // since the driver was loaded
inline constexpr unsigned kEccAggregate = 1;  // for the life of the GPU
inline constexpr unsigned kEccLocations = 8;  // nvmlMemoryLocation_t: 0 L1 cache ... 7 SRAM

// nvmlPageRetirementCause_t
inline constexpr unsigned kRetiredSingleBit = 0;
inline constexpr unsigned kRetiredDoubleBit = 1;

// nvmlFieldValue_t::fieldId
inline constexpr unsigned kFieldMemoryTemperature = 82;  // C
inline constexpr unsigned kFieldNvlinkCount = 91;
inline constexpr unsigned kFieldNvlinkDataTx = 138;  // KiB; scope: link, all ones: sum
inline constexpr unsigned kFieldNvlinkDataRx = 139;
inline constexpr unsigned kFieldPowerAverage = 185;  // mW
inline constexpr unsigned kFieldPowerInstant = 186;
inline constexpr unsigned kFieldRecoveryAction = 230;  // kRecovery...; from the 570 drivers on
// Nanoseconds of throttling by one cause. In other libraries the same numbers mean power smoothing:
// the first three are those of 12.9 and 13.0, the others those of 13.1 and later.
inline constexpr unsigned kFieldThrottleSwThermal129 = 251;
inline constexpr unsigned kFieldThrottleHwThermal129 = 252;
inline constexpr unsigned kFieldThrottlePowerBrake129 = 253;
inline constexpr unsigned kFieldThrottleSwThermal131 = 269;
inline constexpr unsigned kFieldThrottleHwThermal131 = 270;
inline constexpr unsigned kFieldThrottlePowerBrake131 = 271;

// nvmlDeviceGpuRecoveryAction_t
inline constexpr unsigned kRecoveryNone = 0;
inline constexpr unsigned kRecoveryReset = 1;
inline constexpr unsigned kRecoveryReboot = 2;
inline constexpr unsigned kRecoveryDrainP2p = 3;
inline constexpr unsigned kRecoveryDrainAndReset = 4;

// nvmlValueType_t
inline constexpr unsigned kValueDouble = 0;
inline constexpr unsigned kValueUnsigned = 1;
inline constexpr unsigned kValueUnsignedLong = 2;
inline constexpr unsigned kValueUnsignedLongLong = 3;
inline constexpr unsigned kValueLongLong = 4;
inline constexpr unsigned kValueInt = 5;

// One field of nvmlDeviceGetFieldValues. Each has a return code of its own.
struct FieldValue {
  unsigned field_id = 0;
  unsigned scope_id = 0;
  long long timestamp_us = 0;
  long long latency_us = 0;
  unsigned value_type = 0;
  ReturnCode code = kSuccess;
  unsigned long long value = 0;  // its first bytes, by value_type
};
static_assert(sizeof(FieldValue) == 40);

struct Bar1Memory {
  unsigned long long total = 0;  // bytes
  unsigned long long free = 0;
  unsigned long long used = 0;
};
static_assert(sizeof(Bar1Memory) == 24);

// Means "not available" in a process's memory.
inline constexpr unsigned long long kMemoryNotAvailable = ~0ULL;

// Written by the unsuffixed process lists.
struct ProcessInfoV1 {
  unsigned pid = 0;
  unsigned long long used_memory = 0;  // bytes
};
static_assert(sizeof(ProcessInfoV1) == 16);

// Written by _v2 and _v3; some 535 drivers wrote 32 bytes each, some of their _v3 wrote 16.
struct ProcessInfo {
  unsigned pid = 0;
  unsigned long long used_memory = 0;  // bytes
  unsigned gpu_instance = ~0U;         // all ones: not MIG
  unsigned compute_instance = ~0U;
};
static_assert(sizeof(ProcessInfo) == 24);

struct ProcessDetail {
  unsigned pid = 0;
  unsigned long long used_memory = 0;  // bytes
  unsigned gpu_instance = ~0U;
  unsigned compute_instance = ~0U;
  unsigned long long protected_memory = 0;
};
static_assert(sizeof(ProcessDetail) == 32);

struct ProcessDetailList {
  unsigned version = 0x01000018;
  unsigned mode = 0;  // 0 compute, 1 graphics, 2 MPS
  unsigned count = 0;
  ProcessDetail* entries = nullptr;
};
static_assert(sizeof(ProcessDetailList) == 24);

struct ProcessUtilization {
  unsigned pid = 0;
  unsigned long long timestamp_us = 0;
  unsigned sm = 0;  // percent
  unsigned memory = 0;
  unsigned encoder = 0;
  unsigned decoder = 0;
};
static_assert(sizeof(ProcessUtilization) == 32);

// Both GPM structs carry a bare version, without their size.
struct GpmSupport {
  unsigned version = 1;
  unsigned supported = 0;
};
static_assert(sizeof(GpmSupport) == 8);

struct GpmMetric {
  unsigned id = 0;
  ReturnCode code = kSuccess;
  double value = 0;
  const char* short_name = nullptr;
  const char* long_name = nullptr;
  const char* unit = nullptr;
};
static_assert(sizeof(GpmMetric) == 40);

// The array's length differs from header to header: only the first `count` entries exist.
struct GpmMetricsGet {
  unsigned version = 1;
  unsigned count = 0;
  GpmSample sample1 = nullptr;  // the older
  GpmSample sample2 = nullptr;
  GpmMetric metrics[333] = {};
};
static_assert(sizeof(GpmMetricsGet) == 24 + 333 * sizeof(GpmMetric));

// nvmlGpmMetricId_t; percent
inline constexpr unsigned kGpmGraphics = 1;
inline constexpr unsigned kGpmSm = 2;
inline constexpr unsigned kGpmOccupancy = 3;
inline constexpr unsigned kGpmTensor = 5;
inline constexpr unsigned kGpmDram = 10;
inline constexpr unsigned kGpmFp64 = 11;
inline constexpr unsigned kGpmFp32 = 12;
inline constexpr unsigned kGpmFp16 = 13;

// nvmlEventData_t, as nvmlEventSetWait_v2 writes it.
struct EventData {
  DeviceHandle device = nullptr;
  unsigned long long type = 0;
  unsigned long long data = 0;  // the Xid, for Xid events
  unsigned gpu_instance = ~0U;
  unsigned compute_instance = ~0U;
};
static_assert(sizeof(EventData) == 32);

// nvmlEventData_t, as the unsuffixed nvmlEventSetWait writes it.
struct EventDataV1 {
  DeviceHandle device = nullptr;
  unsigned long long type = 0;
  unsigned long long data = 0;
};
static_assert(sizeof(EventDataV1) == 24);

// Opaque: the object on which events are waited for.
struct EventSetTag;
using EventSet = EventSetTag*;

// nvmlEventType
inline constexpr unsigned long long kEventSingleBitEcc = 0x1;
inline constexpr unsigned long long kEventDoubleBitEcc = 0x2;
inline constexpr unsigned long long kEventXid = 0x8;
inline constexpr unsigned long long kEventPoison = 0x1000;
inline constexpr unsigned long long kEventFatalPoison = 0x2000;
inline constexpr unsigned long long kEventUnavailable = 0x4000;
inline constexpr unsigned long long kEventRecoveryAction = 0x8000;

struct ConfComputeMemory {
  unsigned long long protected_kib = 0;
  unsigned long long unprotected_kib = 0;
};
static_assert(sizeof(ConfComputeMemory) == 16);

struct C2cMode {
  unsigned enabled = 0;
};
static_assert(sizeof(C2cMode) == 4);

struct RowRemapperHistogram {
  unsigned max = 0;  // banks by how many spare rows they have left
  unsigned high = 0;
  unsigned partial = 0;
  unsigned low = 0;
  unsigned none = 0;
};
static_assert(sizeof(RowRemapperHistogram) == 20);

struct EccCounts {
  unsigned long long l1_cache = 0;
  unsigned long long l2_cache = 0;
  unsigned long long device_memory = 0;
  unsigned long long register_file = 0;
};
static_assert(sizeof(EccCounts) == 32);

struct ViolationTime {
  unsigned long long reference_us = 0;
  unsigned long long violation_ns = 0;
};
static_assert(sizeof(ViolationTime) == 16);

// nvmlPerfPolicyType_t
inline constexpr unsigned kViolationPower = 0;
inline constexpr unsigned kViolationThermal = 1;
inline constexpr unsigned kViolationKinds = 12;

struct PowerLimitV2 {
  unsigned version = 0x0200000C;
  unsigned scope = 0;  // 0: the GPU
  unsigned milliwatts = 0;
};
static_assert(sizeof(PowerLimitV2) == 12);

// nvmlClockId_t
inline constexpr unsigned kClockIdCurrent = 0;
inline constexpr unsigned kClockIdApplicationTarget = 1;
inline constexpr unsigned kClockIdApplicationDefault = 2;
inline constexpr unsigned kClockIdCustomerBoostMax = 3;

// nvmlIntNvLinkDeviceType_t
inline constexpr unsigned kNvlinkToGpu = 0;
inline constexpr unsigned kNvlinkToSwitch = 2;

// nvmlAffinityScope_t
inline constexpr unsigned kAffinityOfNode = 0;
inline constexpr unsigned kAffinityOfSocket = 1;

// nvmlGpuTopologyLevel_t
inline constexpr unsigned kTopologyInternal = 0;  // the same board
inline constexpr unsigned kTopologyNode = 40;     // the same NUMA node
inline constexpr unsigned kTopologySystem = 50;   // across sockets

// More of nvmlFieldValue_t::fieldId
inline constexpr unsigned kFieldEccMode = 1;
inline constexpr unsigned kFieldEccModePending = 2;
inline constexpr unsigned kFieldEccVolatileCorrected = 3;
inline constexpr unsigned kFieldEccVolatileUncorrected = 4;
inline constexpr unsigned kFieldEccAggregateCorrected = 5;
inline constexpr unsigned kFieldEccAggregateUncorrected = 6;
inline constexpr unsigned kFieldRetiredSingleBit = 29;
inline constexpr unsigned kFieldRetiredDoubleBit = 30;
inline constexpr unsigned kFieldRetiredPending = 31;
inline constexpr unsigned kFieldViolationPower = 74;  // ns
inline constexpr unsigned kFieldViolationThermal = 75;
inline constexpr unsigned kFieldTotalEnergy = 83;        // mJ
inline constexpr unsigned kFieldNvlinkSpeedCommon = 90;  // MB/s
inline constexpr unsigned kFieldPcieReplays = 94;
inline constexpr unsigned kFieldRemappedCorrected = 142;
inline constexpr unsigned kFieldRemappedUncorrected = 143;
inline constexpr unsigned kFieldRemappedPending = 144;
inline constexpr unsigned kFieldRemappedFailure = 145;
inline constexpr unsigned kFieldNvlinkSpeed = 164;    // MB/s; scope: link
inline constexpr unsigned kFieldPowerLimitMin = 187;  // mW
inline constexpr unsigned kFieldPowerLimitMax = 188;
inline constexpr unsigned kFieldPowerLimitDefault = 189;
inline constexpr unsigned kFieldPowerLimitCurrent = 190;
inline constexpr unsigned kFieldPowerLimitRequested = 192;
inline constexpr unsigned kScopeAllLinks = ~0U;

// More of nvmlGpmMetricId_t; MiB/s
inline constexpr unsigned kGpmInteger = 4;  // percent
inline constexpr unsigned kGpmPcieTx = 20;
inline constexpr unsigned kGpmPcieRx = 21;
inline constexpr unsigned kGpmNvlinkRx = 60;
inline constexpr unsigned kGpmNvlinkTx = 61;
inline constexpr unsigned kGpmMetricMax = 333;
inline constexpr unsigned kGspFirmwareSize = 64;  // NVML_GSP_FIRMWARE_VERSION_BUF_SIZE

}  // namespace gpuyard::nvml
