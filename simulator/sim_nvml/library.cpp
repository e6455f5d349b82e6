// Initialisation, error texts and versions.
#include "sim_nvml/device_call.h"
#include "sim_nvml/driver_version.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using sim_nvml::OpenedDriver;

// `text(version of the driver)`.
template <class Text>
ReturnCode put_version(char* out, unsigned size, Text&& text) {
  return sim_nvml::on_driver(out != nullptr, [&](const OpenedDriver& driver) {
    return sim_nvml::put_text(text(driver.version()), out, size);
  });
}

// Up to 23 as NVIDIA publishes them with DCGM; 25 and 27 as drivers were seen to say it; the others
// after what nvml.h says of the code.
const char* text_of(ReturnCode code) {
  switch (code) {
    case kSuccess:
      return "Success";
    case kUninitialized:
      return "Uninitialized";
    case kInvalidArgument:
      return "Invalid Argument";
    case kNotSupported:
      return "Not Supported";
    case kNoPermission:
      return "Insufficient Permissions";
    case kAlreadyInitialized:
      return "Already Initialized";
    case kNotFound:
      return "Not Found";
    case kInsufficientSize:
      return "Insufficient Size";
    case kInsufficientPower:
      return "Insufficient External Power";
    case kDriverNotLoaded:
      return "Driver Not Loaded";
    case kTimeout:
      return "Timeout";
    case kIrqIssue:
      return "Interrupt Request Issue";
    case kLibraryNotFound:
      return "NVML Shared Library Not Found";
    case kFunctionNotFound:
      return "Function Not Found";
    case kCorruptedInforom:
      return "Corrupted infoROM";
    case kGpuIsLost:
      return "GPU is lost";
    case kResetRequired:
      return "GPU requires reset";
    case kOperatingSystem:
      return "GPU access blocked by the operating system";
    case kLibRmVersionMismatch:
      return "Driver/library version mismatch";
    case kInUse:
      return "In use by another client";
    case kMemory:
      return "Insufficient Memory";
    case kNoData:
      return "No data";
    case kVgpuEccNotSupported:
      return "The requested vGPU operation is not available on target device, because ECC is "
             "enabled";
    case kInsufficientResources:
      return "Insufficient Resources";
    case kFreqNotSupported:
      return "Frequency not supported";
    case kArgumentVersionMismatch:
      return "Argument version mismatch";
    case kDeprecated:
      return "The requested functionality has been deprecated";
    case kNotReady:
      return "System is not in ready state";
    case kGpuNotFound:
      return "No GPUs were found";
    case kInvalidState:
      return "Resource not in correct state to perform requested operation";
    case kResetTypeNotSupported:
      return "Reset not supported for given device/parameters";
    default:
      return "Unknown Error";
  }
}

}  // namespace

// By it gpuyard knows that no GPU is behind this library.
extern "C" {
[[gnu::visibility("default")]] extern const int gpuyard_simulates;
const int gpuyard_simulates = 1;
}

SIM_NVML_ENTRY nvmlInit() {
  return sim_nvml::session().open();
}
SIM_NVML_ENTRY nvmlInit_v2() {
  return sim_nvml::session().open();
}
SIM_NVML_ENTRY nvmlInitWithFlags(unsigned /*flags*/) {
  return sim_nvml::session().open();
}
SIM_NVML_ENTRY nvmlShutdown() {
  return sim_nvml::session().close();
}

extern "C" [[gnu::visibility("default")]] const char* nvmlErrorString(ReturnCode code) {
  return text_of(code);
}

SIM_NVML_ENTRY nvmlSystemGetDriverVersion(char* out, unsigned size) {
  return put_version(out, size, [](std::string_view driver) { return driver; });
}

SIM_NVML_ENTRY nvmlSystemGetNVMLVersion(char* out, unsigned size) {
  return put_version(out, size, sim_nvml::nvml_version_of);
}

SIM_NVML_ENTRY nvmlSystemGetCudaDriverVersion_v2(int* out) {
  return sim_nvml::on_driver(out != nullptr, [&](const OpenedDriver& driver) {
    *out = sim_nvml::cuda_version_of(driver.version());
    return kSuccess;
  });
}

// The unsuffixed one answers without initialisation, from the library alone.
SIM_NVML_ENTRY nvmlSystemGetCudaDriverVersion(int* out) {
  if (out == nullptr) return kInvalidArgument;
  if (sim_nvml::session().driver() != nullptr) return nvmlSystemGetCudaDriverVersion_v2(out);
  *out = sim_nvml::cuda_version_of(sim::kUsualDriver);
  return kSuccess;
}
