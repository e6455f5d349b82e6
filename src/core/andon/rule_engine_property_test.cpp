// Properties of the engine that hold for all readings and all clocks.
#include <algorithm>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "core/andon/alert.h"
#include "core/andon/alert_service_for_tests.h"

namespace gpuyard::andon {
namespace {

using Kind = AlertTransition::Kind;

// Half-degrees around both levels, or nothing.
rc::Gen<std::optional<double>> some_temperature() {
  return rc::gen::map(rc::gen::inRange(0, 60), [](int steps) {
    return steps < 8 ? std::optional<double>() : std::optional(65 + steps * 0.5);
  });
}

RC_GTEST_PROP(RuleEngineProperty, NoBuiltInRuleFiresOnMissingData, (int seconds)) {
  RuleEngine engine(built_in_rules());
  Facts facts;
  for (std::uint32_t index = 0; index < 4; ++index) facts.gpus.push_back(gpu_facts(index));
  const Sample empty;
  for (GpuFacts& gpu : facts.gpus) gpu.sample = *rc::gen::arbitrary<bool>() ? &empty : nullptr;
  TimePoint now = kStart;
  for (int i = 0; i < 50; ++i) {
    now += std::chrono::seconds(seconds % 4000);
    RC_ASSERT(engine.tick(facts, now, kWall).empty());
  }
  RC_ASSERT(engine.firing_alerts().empty());
}

// The rule in other words: it fires when all values within the hold reached `at`, and clears when
// all values within the clear hold were clear.
RC_GTEST_PROP(RuleEngineProperty, FiresAndClearsExactlyByItsRule, ()) {
  const Rule rule = hot_rule();
  EngineRun run({rule});
  const auto runs = *rc::gen::container<std::vector<std::pair<std::optional<double>, int>>>(
      rc::gen::pair(some_temperature(), rc::gen::inRange(1, 30)));
  bool firing = false;
  int reached = 0;
  int clear = 0;
  for (const auto& [value, seconds] : runs) {
    for (int i = 0; i < seconds; ++i) {
      reached = value && *value >= 80 ? reached + 1 : 0;
      clear = value && *value < 75 ? clear + 1 : 0;
      const auto changes = run.tick(at_temperature(value));
      const bool fires = !firing && reached > 10;
      const bool clears = firing && clear > 20;
      RC_ASSERT(std::ranges::count(changes, Kind::fired, &AlertTransition::kind) ==
                (fires ? 1 : 0));
      RC_ASSERT(std::ranges::count(changes, Kind::resolved, &AlertTransition::kind) ==
                (clears ? 1 : 0));
      firing = (firing || fires) && !clears;
      if (fires) reached = 0;
      if (clears) reached = 0, clear = 0;
      RC_ASSERT(run.engine.firing_alerts().size() == (firing ? 1U : 0U));
    }
  }
}

RC_GTEST_PROP(RuleEngineProperty, FlappingWithinBandKeepsState, (bool fired_before)) {
  EngineRun run({hot_rule()});
  if (fired_before) run.stay(at_temperature(85), 11);
  for (const int steps : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 50))) {
    RC_ASSERT(run.tick(at_temperature(75 + steps * 0.1)).empty());
  }
  RC_ASSERT(run.engine.firing_alerts().size() == (fired_before ? 1U : 0U));
}

RC_GTEST_PROP(RuleEngineProperty, SeverityIsFrom0To100AndRisesWithTheExcess, ()) {
  for (const Rule& rule : built_in_rules()) {
    const double at = rule.at;
    const double less = *rc::gen::map(rc::gen::inRange(0, 4000), [](int n) { return n * 0.25; });
    const double more =
        less + *rc::gen::map(rc::gen::inRange(0, 4000), [](int n) { return n * 0.25; });
    const double sign = rule.below ? -1 : 1;
    const int small = rule.severity_of(at + sign * less);
    const int large = rule.severity_of(at + sign * more);
    RC_ASSERT(small >= 0 && large <= 100 && small <= large);
  }
}

// A clock that jumps ahead counts as time with the last value; one that goes back starts again.
RC_GTEST_PROP(RuleEngineProperty, ClockJumpNeverFiresOrResolvesWrongly, ()) {
  const bool hot = *rc::gen::arbitrary<bool>();
  EngineRun run({hot_rule()});
  if (hot) run.stay(at_temperature(85), 11);
  for (const int jump : *rc::gen::container<std::vector<int>>(rc::gen::inRange(-3500, 100'000))) {
    run.now += std::chrono::seconds(jump);
    if (run.now < TimePoint{}) run.now = TimePoint{};
    RC_ASSERT(run.tick(at_temperature(hot ? 85 : 60)).empty());
  }
}

RC_GTEST_PROP(RuleEngineProperty, GrowthWithinWindowIsAlwaysDetected, ()) {
  constexpr Duration kOver = std::chrono::seconds(120);
  CounterWindow growth;
  std::vector<std::pair<TimePoint, double>> all;
  TimePoint now = kStart;
  double counter = 0;
  for (int i = 0; i < 200; ++i) {
    now += std::chrono::seconds(*rc::gen::inRange(1, 10));
    counter += *rc::gen::inRange(0, 3);
    const auto grown = growth.add(counter, kOver, now);
    RC_ASSERT(grown.has_value() == !all.empty());
    all.emplace_back(now, counter);
    if (!grown) continue;
    const auto first =
        std::ranges::find_if(all, [&](const auto& one) { return one.first > now - kOver; });
    const auto before = first == all.begin() ? first : std::prev(first);
    RC_ASSERT(*grown >= counter - before->second);
    // The value is at most one part and one tick older than it should be.
    const auto much_older = std::ranges::find_if(all, [&](const auto& one) {
      return one.first > before->first - kOver / 60 - std::chrono::seconds(10);
    });
    RC_ASSERT(*grown <= counter - much_older->second + 3);
  }
}

}  // namespace
}  // namespace gpuyard::andon
