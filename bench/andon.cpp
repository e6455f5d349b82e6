// Measures what checking all rules costs the loop at each reading: 200 rules on 64 GPUs, whose
// readings are all 50. These readings trip seven built-in rules on each GPU; if one GPU in eight is
// hot, also all rules about heat on that one.
#include <benchmark/benchmark.h>

#include <fmt/format.h>

#include "core/andon/facts.h"
#include "core/andon/rule_engine.h"
#include "core/andon/rule_reader.h"

namespace gpuyard::andon {
namespace {

constexpr std::size_t kRules = 200;
constexpr WallTime kWall{std::chrono::hours(500'000)};

// The built-in rules, and rules about a metric of the catalog, kRules together.
Rules many_rules() {
  std::string text;
  for (std::size_t i = built_in_rules().size(); i < kRules; ++i) {
    text += fmt::format("[rule.r{}]\non = 'temperature_core_celsius'\nat = {}\nmessage = 'x'\n", i,
                        85 + i % 5);
  }
  return *apply_rules(built_in_rules(), text, "bench");
}

Snapshot hot_snapshot(std::size_t gpus, std::size_t hot_of) {
  Snapshot snapshot;
  snapshot.driver.initialised = true;
  for (std::size_t i = 0; i < gpus; ++i) {
    DeviceState& device = snapshot.devices.emplace_back();
    device.info.id = fmt::format("GPU-{:08x}-2c51-4ca8-8a5f-e1cbf99717fc", i);
    device.info.index = static_cast<std::uint32_t>(i);
    device.info.name = "NVIDIA H100 80GB HBM3";
    const bool hot = hot_of != 0 && i % hot_of == 0;
    for (std::size_t metric = 0; metric < kMetricCount; ++metric) {
      device.sample.set(
          {static_cast<Metric>(metric), 0, TimePoint(std::chrono::hours(1)), std::int64_t{50}});
    }
    device.sample.set({Metric::temperature_core, 0, TimePoint(std::chrono::hours(1)),
                       std::int64_t{hot ? 95 : 60}});
  }
  return snapshot;
}

void tick(benchmark::State& state) {
  const Snapshot snapshot = hot_snapshot(static_cast<std::size_t>(state.range(0)),
                                         static_cast<std::size_t>(state.range(1)));
  FactCollector collector;
  RuleEngine engine(many_rules());
  TimePoint now(std::chrono::hours(1));
  std::size_t changes = 0;
  for (auto _ : state) {
    now += std::chrono::seconds(1);
    const Facts facts = collector.collect(snapshot, {}, now);
    changes += engine.tick(facts, now, kWall).size();
  }
  state.counters["rules"] = static_cast<double>(engine.rules().size());
  state.counters["firing"] = static_cast<double>(engine.firing_alerts().size());
  benchmark::DoNotOptimize(changes);
}
BENCHMARK(tick)->Args({8, 0})->Args({64, 0})->Args({64, 8})->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace gpuyard::andon

BENCHMARK_MAIN();
