#include "device/advice.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace gpuyard {
namespace {

struct Advice {
  std::string_view part;  // of the reason: the driver's words, or the loader's
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
