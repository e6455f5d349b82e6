#include "sim_nvml/session.h"

#include <algorithm>
#include <array>

#include "sim/world_file.h"
#include "sim_nvml/device_call.h"
#include "sim_nvml/opened_driver.h"

namespace gpuyard::sim_nvml {

nvml::ReturnCode Session::open() {
  {
    const MutexLock lock(mutex_);
    if (opened_ > 0) {
      ++opened_;
      return nvml::kSuccess;
    }
  }
  // Without the lock: a driver that hangs here must not keep other threads from shutting down.
  nvml::ReturnCode code = nvml::kSuccess;
  auto driver = OpenedDriver::open(sim::default_world_directory(), code);
  if (driver == nullptr) return code;
  const MutexLock lock(mutex_);
  if (opened_++ == 0) driver_.store(std::move(driver));
  return nvml::kSuccess;
}

nvml::ReturnCode Session::close() {
  const MutexLock lock(mutex_);
  if (opened_ == 0) return nvml::kUninitialized;
  if (--opened_ == 0) driver_.store(nullptr);
  return nvml::kSuccess;
}

Session& session() {
  // Never destroyed: threads of the host program may still call NVML while it exits.
  static Session& only = *new Session;
  return only;
}

}  // namespace gpuyard::sim_nvml

// Initialisation, error texts and versions.
namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using namespace gpuyard::sim_nvml;

// Writes `text(version of the driver)` to the caller's buffer.
template <class Text>
ReturnCode put_version(char* out, unsigned size, Text&& text) {
  return on_driver(out != nullptr, [&](const OpenedDriver& driver) {
    return put_text(text(driver.version()), out, size);
  });
}

struct ErrorText {
  ReturnCode code;
  const char* text;
};

// Texts up to 23 are those that NVIDIA publishes with DCGM; 25 and 27 were observed from drivers;
// the others follow nvml.h's description of the code.
constexpr std::array kErrorTexts{
    ErrorText{kSuccess, "Success"},
    ErrorText{kUninitialized, "Uninitialized"},
    ErrorText{kInvalidArgument, "Invalid Argument"},
    ErrorText{kNotSupported, "Not Supported"},
    ErrorText{kNoPermission, "Insufficient Permissions"},
    ErrorText{kAlreadyInitialized, "Already Initialized"},
    ErrorText{kNotFound, "Not Found"},
    ErrorText{kInsufficientSize, "Insufficient Size"},
    ErrorText{kInsufficientPower, "Insufficient External Power"},
    ErrorText{kDriverNotLoaded, "Driver Not Loaded"},
    ErrorText{kTimeout, "Timeout"},
    ErrorText{kIrqIssue, "Interrupt Request Issue"},
    ErrorText{kLibraryNotFound, "NVML Shared Library Not Found"},
    ErrorText{kFunctionNotFound, "Function Not Found"},
    ErrorText{kCorruptedInforom, "Corrupted infoROM"},
    ErrorText{kGpuIsLost, "GPU is lost"},
    ErrorText{kResetRequired, "GPU requires reset"},
    ErrorText{kOperatingSystem, "GPU access blocked by the operating system"},
    ErrorText{kLibRmVersionMismatch, "Driver/library version mismatch"},
    ErrorText{kInUse, "In use by another client"},
    ErrorText{kMemory, "Insufficient Memory"},
    ErrorText{kNoData, "No data"},
    ErrorText{kVgpuEccNotSupported,
              "The requested vGPU operation is not available on target device, because ECC is "
              "enabled"},
    ErrorText{kInsufficientResources, "Insufficient Resources"},
    ErrorText{kFreqNotSupported, "Frequency not supported"},
    ErrorText{kArgumentVersionMismatch, "Argument version mismatch"},
    ErrorText{kDeprecated, "The requested functionality has been deprecated"},
    ErrorText{kNotReady, "System is not in ready state"},
    ErrorText{kGpuNotFound, "No GPUs were found"},
    ErrorText{kInvalidState, "Resource not in correct state to perform requested operation"},
    ErrorText{kResetTypeNotSupported, "Reset not supported for given device/parameters"},
};

}  // namespace

// gpuyard recognises the simulated library by the first symbol. The second tells it whether the
// world's time runs otherwise than real time; 0 also if NVML is not initialised.
extern "C" {
[[gnu::visibility("default")]] extern const int gpuyard_simulates;
const int gpuyard_simulates = 1;

[[gnu::visibility("default")]] int gpuyard_has_own_time();
int gpuyard_has_own_time() {
  const auto driver = session().driver();
  return driver != nullptr && driver->has_own_time() ? 1 : 0;
}
}

SIM_NVML_ENTRY nvmlInit() {
  return session().open();
}
SIM_NVML_ENTRY nvmlInit_v2() {
  return session().open();
}
SIM_NVML_ENTRY nvmlInitWithFlags(unsigned /*flags*/) {
  return session().open();
}
SIM_NVML_ENTRY nvmlShutdown() {
  return session().close();
}

extern "C" [[gnu::visibility("default")]] const char* nvmlErrorString(ReturnCode code) {
  const auto found = std::ranges::find(kErrorTexts, code, &ErrorText::code);
  return found != kErrorTexts.end() ? found->text : "Unknown Error";
}

SIM_NVML_ENTRY nvmlSystemGetDriverVersion(char* out, unsigned size) {
  return put_version(out, size, [](std::string_view driver) { return driver; });
}

SIM_NVML_ENTRY nvmlSystemGetNVMLVersion(char* out, unsigned size) {
  return put_version(out, size, nvml_version_of);
}

SIM_NVML_ENTRY nvmlSystemGetCudaDriverVersion_v2(int* out) {
  return on_driver(out != nullptr, [&](const OpenedDriver& driver) {
    *out = cuda_version_of(driver.version());
    return kSuccess;
  });
}

// The unsuffixed function answers without initialisation, from the library alone.
SIM_NVML_ENTRY nvmlSystemGetCudaDriverVersion(int* out) {
  if (out == nullptr) return kInvalidArgument;
  if (session().driver() != nullptr) return nvmlSystemGetCudaDriverVersion_v2(out);
  *out = cuda_version_of(sim::kDefaultDriver);
  return kSuccess;
}
