// Prints whether each GPU is healthy. Exit status: 0 all are, 1 one is not, 2 not known, 5 no GPU.
#include <algorithm>
#include <iostream>
#include <optional>

#include <gpuyard/gpuyard.h>

namespace {

constexpr int kNotKnown = 2;
constexpr int kNoGpu = 5;

int status_of(std::optional<gpuyard::Health> verdict) {
  if (!verdict) return kNotKnown;
  return *verdict == gpuyard::Health::healthy ? 0 : 1;
}

}  // namespace

int main() {
  const auto monitor = gpuyard::Monitor::open();
  if (!monitor) {
    std::cerr << monitor.error().text() << '\n' << advice_on(monitor.error()) << '\n';
    return kNoGpu;
  }
  int status = monitor->gpu_count() > 0 ? 0 : kNoGpu;
  for (const gpuyard::Device& gpu : monitor->inventory()) {
    const auto verdict = gpu.health.verdict;
    std::cout << "GPU " << gpu.index << " (" << gpu.name
              << "): " << (verdict ? name_of(*verdict) : "unknown") << '\n';
    for (const std::string& reason : gpu.health.reasons) std::cout << "  " << reason << '\n';
    // A bad GPU outweighs one whose health is unknown.
    const int own = status_of(verdict);
    status = status == 1 || own == 1 ? 1 : std::max(status, own);
  }
  return status;
}
