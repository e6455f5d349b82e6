// Measures the energy that the GPUs use for some seconds: example_energy [SECONDS]
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <thread>

#include <gpuyard/gpuyard.h>

int main(int argc, char** argv) {
  const int seconds = argc > 1 ? std::atoi(argv[1]) : 1;
  if (argc > 2 || seconds < 1) {
    std::cerr << "usage: " << argv[0] << " [SECONDS]\n";
    return 2;
  }
  const auto monitor = gpuyard::Monitor::open();
  if (!monitor) {
    std::cerr << monitor.error().text() << '\n' << advice_on(monitor.error()) << '\n';
    return 5;
  }
  auto window = monitor->begin_energy_window();
  if (!window) {
    std::cerr << window.error().text() << '\n';
    return 5;
  }
  std::this_thread::sleep_for(std::chrono::seconds(seconds));  // your work
  const gpuyard::EnergyMeasurement used = window->end();
  for (const gpuyard::GpuEnergy& gpu : used.gpus) {
    std::cout << "GPU " << gpu.index << ": ";
    if (gpu.joules) {
      std::cout << *gpu.joules << " J";
    } else {
      std::cout << "energy unknown";
    }
    if (gpu.mean_watts) std::cout << ", mean " << *gpu.mean_watts << " W";
    if (gpu.peak_watts) std::cout << ", peak " << *gpu.peak_watts << " W";
    std::cout << (gpu.estimated ? ", estimated" : "") << (gpu.interrupted ? ", interrupted" : "")
              << '\n';
  }
  if (used.joules) {
    std::cout << (used.partial ? "at least " : "") << *used.joules << " J in " << used.seconds
              << " s\n";
  } else {
    std::cout << "energy unknown in " << used.seconds << " s\n";
  }
  return 0;
}
