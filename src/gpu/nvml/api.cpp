#include "gpu/nvml/api.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "gpu/device/error.h"

namespace gpuyard::nvml {
namespace {

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

void* find_symbol(void* library, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    void* const symbol = library != nullptr ? ::dlsym(library, name) : nullptr;
    if (symbol != nullptr) return symbol;
  }
  return nullptr;
}

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
  return Library{Api{library}, path_of(library), ::dlsym(library, "gpuyard_simulates") != nullptr,
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
