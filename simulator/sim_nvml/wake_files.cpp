#include "sim_nvml/wake_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "sim/pci_address.h"
#include "sim/pci_files.h"

namespace gpuyard::sim_nvml {

WakeFiles::WakeFiles(const std::string& world_directory, const sim::WorldReader& world) {
  const std::uint32_t count = std::min(world.gpu_count(), sim::kMaxGpus);
  for (std::uint32_t place = 0; place < count; ++place) {
    const std::string path = world_directory + "/" + sim::kPciDirectory + "/" +
                             sim::sysfs_pci_address(world.identity(place)).data() + "/" +
                             sim::kLastUseFile;
    files_[place] = UniqueFd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
    wake(place);
  }
}

void WakeFiles::wake(std::uint32_t place) const {
  if (files_[place]) ::futimens(files_[place].get(), nullptr);
}

}  // namespace gpuyard::sim_nvml
