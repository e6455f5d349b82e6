#include "library/driver_host.h"

#include "driver/host.h"
#include "library/nvml_source.h"

namespace gpuyard::library {

void run_driver_host(const std::vector<std::string>& arguments,
                     const std::string& simulated_library) {
  const bool named = arguments.size() == 2 && arguments[0] == "--nvml";
  const auto choice = choose_nvml(named ? arguments[1] : "", simulated_library);
  driver::run_host_process([&] { return open_nvml(choice); });
}

}  // namespace gpuyard::library
