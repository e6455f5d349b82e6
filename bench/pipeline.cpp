// Measures what a tick costs beyond the driver: each step from a driver call to the sent bytes, in
// process, on the simulated NVML of the world that GPUYARD_SIM_WORLD names.
#include <cstdlib>
#include <memory>

#include <benchmark/benchmark.h>

#include "base/json_writer.h"
#include "faces/metrics/prometheus.h"
#include "faces/protocol/resources.h"
#include "gpu/device/catalog.h"
#include "gpu/nvml/nvml_backend.h"

namespace gpuyard {
namespace {

// Without PCIe traffic: the driver measures it for 20 ms a call, and sleeping is not to be measured
// here.
const ProbeSet kProbes = ProbeSet::all() - ProbeSet{Probe::pcie_tx, Probe::pcie_rx};

class SampledNode {
 public:
  SampledNode() {
    auto backend = nvml::make_backend(SIM_NVML_LIBRARY);
    auto session = backend ? (*backend)->start() : Result<DriverSession>(backend.error());
    if (!session) {
      std::fprintf(stderr, "pipeline: %s\n", session.error().message.c_str());
      std::exit(1);
    }
    backend_ = *std::move(backend);
    snapshot_.driver = {true, "", session->driver};
    for (std::uint32_t i = 0; i < session->gpu_count; ++i) {
      snapshot_.devices.push_back({backend_->open(i), DeviceCondition::responsive, "", {}, 0});
    }
    sample(kProbes);
  }

  void sample(ProbeSet probes) {
    for (DeviceState& device : snapshot_.devices) {
      device.sample.merge(backend_->read(device.info.id, probes));
    }
  }
  const Snapshot& snapshot() const { return snapshot_; }

 private:
  std::unique_ptr<Backend> backend_;
  Snapshot snapshot_;
};

SampledNode& sampled_node() {
  static SampledNode instance;
  return instance;
}

void sample_fast_tier(benchmark::State& state) {
  for (auto _ : state) sampled_node().sample(probes_of(Tier::fast));
}
void sample_all_tiers(benchmark::State& state) {
  for (auto _ : state) sampled_node().sample(kProbes);
}
void snapshot_to_json(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(json::to_json(protocol::snapshot_of(sampled_node().snapshot())));
  }
}
void snapshot_to_prometheus(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(metrics::render(sampled_node().snapshot(), {"1"}, "gpuyard"));
  }
}
void whole_tick(benchmark::State& state) {
  for (auto _ : state) {
    sampled_node().sample(probes_of(Tier::fast));
    benchmark::DoNotOptimize(json::to_json(protocol::snapshot_of(sampled_node().snapshot())));
    benchmark::DoNotOptimize(metrics::render(sampled_node().snapshot(), {"1"}, "gpuyard"));
  }
}
BENCHMARK(sample_fast_tier);
BENCHMARK(sample_all_tiers);
BENCHMARK(snapshot_to_json);
BENCHMARK(snapshot_to_prometheus);
BENCHMARK(whole_tick);

}  // namespace
}  // namespace gpuyard

BENCHMARK_MAIN();
