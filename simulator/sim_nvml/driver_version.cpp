#include "sim_nvml/driver_version.h"

#include <array>
#include <charconv>

namespace gpuyard::sim_nvml {
namespace {

struct Branch {
  int driver;
  int cuda;
};

// The first driver branch of each CUDA version, as NVIDIA's release notes list them; the oldest
// stands for all before it.
constexpr std::array kBranches{
    Branch{450, 11000}, Branch{470, 11040}, Branch{510, 11060}, Branch{515, 11070},
    Branch{520, 11080}, Branch{525, 12000}, Branch{530, 12010}, Branch{535, 12020},
    Branch{545, 12030}, Branch{550, 12040}, Branch{555, 12050}, Branch{560, 12060},
    Branch{565, 12070}, Branch{570, 12080}, Branch{575, 12090}, Branch{580, 13000}};

}  // namespace

int cuda_version_of(std::string_view driver) {
  int number = 0;
  std::from_chars(driver.data(), driver.data() + driver.size(), number);
  int cuda = kBranches.front().cuda;
  for (const Branch& branch : kBranches) {
    if (number >= branch.driver) cuda = branch.cuda;
  }
  return cuda;
}

std::string nvml_version_of(std::string_view driver) {
  const std::size_t first = driver.find('.');
  const std::size_t second = first == driver.npos ? first : driver.find('.', first + 1);
  return std::to_string(cuda_version_of(driver) / 1000) + "." +
         std::string(driver.substr(0, second));
}

}  // namespace gpuyard::sim_nvml
