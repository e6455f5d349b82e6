#include "gpu/device/error.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace gpuyard {
namespace {

constexpr std::string_view kInitFailed = "failed to initialise NVML: ";

struct Advice {
  std::string_view part;  // part of the reason, in the driver's or the loader's words
  std::string_view text;
};

constexpr std::string_view kFindLibraryAdvice =
    "libnvidia-ml.so.1 is part of the NVIDIA driver (Debian package libnvidia-ml1); to see where "
    "the loader finds it: ldconfig -p | grep nvidia-ml\nIn a container, the runtime must provide "
    "it: use the NVIDIA Container Toolkit with NVIDIA_DRIVER_CAPABILITIES=utility.";

constexpr std::array kAdvice = {
    Advice{"Shared Library Not Found", kFindLibraryAdvice},
    Advice{"cannot open shared object", kFindLibraryAdvice},
    Advice{"invalid ELF header", kFindLibraryAdvice},
    Advice{"wrong ELF class", kFindLibraryAdvice},
    Advice{"Driver Not Loaded",
           "The library is installed, but the kernel module is not loaded. Load it with `modprobe "
           "nvidia`; if that fails, see `dmesg | grep -i nvidia`."},
    Advice{"Insufficient Permissions",
           "This user may not use the driver. To see who may: ls -l /dev/nvidiactl /dev/nvidia0"},
    Advice{"library version mismatch",
           "The driver was upgraded, but the old kernel module is still loaded. Reload the module "
           "or reboot."},
};

std::string_view known_advice(std::string_view reason) {
  const auto* const known = std::ranges::find_if(
      kAdvice, [&](const Advice& one) { return reason.find(one.part) != reason.npos; });
  return known != kAdvice.end() ? known->text : "";
}

}  // namespace

Error init_error(std::string_view why, Errc code) {
  return {code, fmt::format("{}{}", kInitFailed, why)};
}

std::string_view init_failure_reason(const Error& error) {
  std::string_view message = error.message;
  if (message.starts_with(kInitFailed)) message.remove_prefix(kInitFailed.size());
  return message;
}

Error query_error(std::string_view why, Errc code) {
  return {code, fmt::format("NVML query failed: {}", why)};
}

Error index_range_error(std::uint32_t index) {
  return {Errc::not_found, fmt::format("GPU index {} is out of range", index)};
}

Error unsupported_feature_error(std::string_view what) {
  return {Errc::unsupported, fmt::format("feature not supported on this platform: {}", what)};
}

bool is_library_error(std::string_view reason) {
  return known_advice(reason) == kFindLibraryAdvice;
}

std::string driver_advice(std::string_view reason, std::string_view naming) {
  if (!is_library_error(reason)) return std::string(known_advice(reason));
  return fmt::format("{}\nIf it is in another place, set its path with {}.", kFindLibraryAdvice,
                     naming);
}

}  // namespace gpuyard
