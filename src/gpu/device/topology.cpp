#include "device/topology.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>

namespace gpuyard {
namespace {

bool leads_to(const DeviceInfo& gpu, const std::string& place) {
  return std::ranges::find(gpu.nvlinks, place) != gpu.nvlinks.end();
}

class Wiring {
 public:
  explicit Wiring(const std::vector<DeviceInfo>& gpus) : gpus_(gpus) {
    for (const DeviceInfo& gpu : gpus) addresses_.insert(gpu.pci_address);
  }

  bool linked(std::size_t one, std::size_t other) const {
    const DeviceInfo& a = gpus_[one];
    const DeviceInfo& b = gpus_[other];
    if (leads_to(a, b.pci_address) || leads_to(b, a.pci_address)) return true;
    // What is no GPU, and what two GPUs are linked with, is a switch; a third GPU forwards nothing.
    return std::ranges::any_of(a.nvlinks, [&](const std::string& place) {
      return !addresses_.contains(place) && leads_to(b, place);
    });
  }

 private:
  const std::vector<DeviceInfo>& gpus_;
  std::set<std::string> addresses_;
};

}  // namespace

std::vector<std::optional<unsigned>> nvlink_cliques(const std::vector<DeviceInfo>& gpus) {
  const Wiring wiring(gpus);
  std::vector<std::vector<std::size_t>> cliques;
  std::vector<std::optional<unsigned>> numbers(gpus.size());
  for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    if (gpus[gpu].nvlinks.empty()) continue;
    auto clique = std::ranges::find_if(cliques, [&](const std::vector<std::size_t>& members) {
      return std::ranges::all_of(members,
                                 [&](std::size_t member) { return wiring.linked(gpu, member); });
    });
    if (clique == cliques.end()) clique = cliques.emplace(clique);
    clique->push_back(gpu);
    numbers[gpu] = static_cast<unsigned>(clique - cliques.begin());
  }
  return numbers;
}

}  // namespace gpuyard
