// Tests code that watches GPUs without any GPU: the test gives it a fleet that it can break.
#include <cstdint>
#include <iostream>
#include <vector>

#include <gpuyard/gpuyard.h>

namespace {

// The code under test: returns the GPUs that may be given work.
std::vector<std::uint32_t> usable(const gpuyard::Monitor& monitor) {
  std::vector<std::uint32_t> indices;
  for (std::uint32_t index = 0; index < monitor.gpu_count(); ++index) {
    const auto health = monitor.health(index);
    if (health && health->verdict == gpuyard::Health::healthy) indices.push_back(index);
  }
  return indices;
}

bool check(const char* what, bool holds) {
  std::cout << (holds ? "ok      " : "FAILED  ") << what << '\n';
  return holds;
}

}  // namespace

int main() {
  using Indices = std::vector<std::uint32_t>;
  auto fleet = gpuyard::FakeFleet::with_healthy_gpus(4, 80'000'000'000);
  auto monitor = gpuyard::Monitor::open(fleet);
  if (!monitor) {
    std::cerr << monitor.error().text() << '\n';
    return 1;
  }
  bool all = check("a healthy fleet can be used", usable(*monitor) == Indices{0, 1, 2, 3});

  fleet.set_temperature(1, 90);
  all &= check("a hot GPU cannot", usable(*monitor) == Indices{0, 2, 3});

  fleet.inject_ecc_error(2);
  all &= check("nor one with a new memory error", usable(*monitor) == Indices{0, 3});

  fleet.remove_gpu(3);
  all &= check("nor one that fell off the bus", usable(*monitor) == Indices{0});
  all &= check("which is no longer visible", monitor->snapshot().size() == 3);

  fleet.set_temperature(1, 50);
  fleet.replug_gpu(3);
  all &= check("what is well again can be used", usable(*monitor) == Indices{0, 1, 3});
  return all ? 0 : 1;
}
