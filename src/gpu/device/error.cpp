#include "device/error.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace gpuyard {
namespace {

constexpr std::string_view kInitFailed = "failed to initialise NVML: ";

}  // namespace

Error init_failed(std::string_view why, Errc code) {
  return {code, fmt::format("{}{}", kInitFailed, why)};
}

std::string_view init_failure_reason(const Error& error) {
  std::string_view message = error.message;
  if (message.starts_with(kInitFailed)) message.remove_prefix(kInitFailed.size());
  return message;
}

Error query_failed(std::string_view why, Errc code) {
  return {code, fmt::format("NVML query failed: {}", why)};
}

Error index_out_of_range(std::uint32_t index) {
  return {Errc::not_found, fmt::format("GPU index {} is out of range", index)};
}

Error feature_not_supported(std::string_view what) {
  return {Errc::unsupported, fmt::format("feature not supported on this platform: {}", what)};
}

namespace {

struct Advice {
  std::string_view part;  // part of the reason, in the driver's or the loader's words
  std::string_view text;
};

constexpr std::string_view kFindTheLibrary =
    "libnvidia-ml.so.1 comes with the NVIDIA driver (Debian: the package libnvidia-ml1); "
    "`ldconfig -p | grep nvidia-ml` shows where the loader finds it.\n"
    "In a container the runtime has to bring it in: NVIDIA's container toolkit, with "
    "NVIDIA_DRIVER_CAPABILITIES=utility.";

constexpr std::array kAdvice = {
    Advice{"Shared Library Not Found", kFindTheLibrary},
    Advice{"cannot open shared object", kFindTheLibrary},
    Advice{"invalid ELF header", kFindTheLibrary},
    Advice{"wrong ELF class", kFindTheLibrary},
    Advice{"Driver Not Loaded",
           "The library is here, but the kernel module is not: `modprobe nvidia` loads it, and "
           "`dmesg | grep -i nvidia` says why it does not."},
    Advice{"Insufficient Permissions",
           "This user may not use the driver: `ls -l /dev/nvidiactl /dev/nvidia0` shows who may."},
    Advice{"library version mismatch",
           "The driver was upgraded and the old kernel module is still loaded: reload the module, "
           "or restart the machine."},
};

}  // namespace

std::string advice_on_driver(std::string_view reason, std::string_view naming) {
  const auto* const known = std::ranges::find_if(
      kAdvice, [&](const Advice& one) { return reason.find(one.part) != reason.npos; });
  if (known == kAdvice.end()) return "";
  if (known->text != kFindTheLibrary) return std::string(known->text);
  return fmt::format("{}\nOne in an unusual place is named with {}.", kFindTheLibrary, naming);
}

}  // namespace gpuyard
