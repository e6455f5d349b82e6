// GPUs, rules and an engine for the tests of this folder.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/andon/alert_service.h"
#include "core/andon/rule_reader.h"

namespace gpuyard::andon {

inline constexpr TimePoint kStart{std::chrono::hours(1)};
inline constexpr WallTime kWall{std::chrono::hours(500'000)};

inline DeviceInfo gpu_info(std::uint32_t index) {
  const std::string id = "GPU-" + std::to_string(index);
  return {id, index, id, "0000:0" + std::to_string(index) + ":00.0", "NVIDIA H100", {}, {}};
}

inline GpuFacts gpu_facts(std::uint32_t index) {
  GpuFacts gpu;
  gpu.info = gpu_info(index);
  return gpu;
}

// Returns the facts of one GPU at this temperature; nothing: it is not known.
inline Facts at_temperature(std::optional<double> celsius) {
  Facts facts;
  facts.gpus.push_back(gpu_facts(0));
  facts.gpus[0].signals[Signal::temperature] = celsius;
  return facts;
}

inline Rule hot_rule() {
  Rule rule;
  rule.name = "hot";
  rule.on = "temperature_c";
  rule.source = Signal::temperature;
  rule.at = 80;
  rule.clear_at = 75;
  rule.hold = std::chrono::seconds(10);
  rule.clear_hold = std::chrono::seconds(20);
  rule.curve = Curve::thermal;
  rule.message = "GPU {gpu} is at {value} C";
  rule.advice = "Cool it.";
  return rule;
}

// A rule that inhibits all other rules of its GPU.
inline Rule lost_rule() {
  Rule rule;
  rule.name = "lost";
  rule.source = Signal::lost;
  rule.at = 1;
  rule.inhibits = {"*"};
  return rule;
}

// An engine with a clock that advances by a second at each tick.
class EngineRun {
 public:
  explicit EngineRun(Rules rules) : engine(std::move(rules)) {}

  std::vector<AlertTransition> tick(const Facts& facts) {
    now += std::chrono::seconds(1);
    return engine.tick(facts, now,
                       kWall + std::chrono::duration_cast<WallTime::duration>(now - kStart));
  }
  // Ticks `seconds` times with the same facts, and returns all changes.
  std::vector<AlertTransition> stay(const Facts& facts, int seconds) {
    std::vector<AlertTransition> all;
    for (int i = 0; i < seconds; ++i) {
      for (AlertTransition& change : tick(facts)) all.push_back(std::move(change));
    }
    return all;
  }

  TimePoint now = kStart;
  RuleEngine engine;
};

}  // namespace gpuyard::andon
