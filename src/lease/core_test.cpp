#include "lease/core.h"

#include <gtest/gtest.h>

namespace gpuyard::lease {
namespace {

Core pool_of(unsigned gpus, Fairness fairness = {}) {
  Core core(fairness);
  for (unsigned i = 0; i < gpus; ++i) {
    Gpu gpu;
    gpu.key = "GPU-" + std::to_string(i);
    EXPECT_TRUE(core.add(gpu));
  }
  return core;
}

Terms want(const Core& core, unsigned count, std::uint32_t owner = 1000) {
  Terms terms;
  terms.owner = owner;
  terms.count = count;
  terms.eligible = core.known();
  return terms;
}

TEST(Core, ServesThoseWhoWaitInTheOrderInWhichTheyCame) {
  RecordProperty("contract", "D4");
  Core core = pool_of(1);
  const TimePoint now{};
  Effects effects;
  const Ticket holder = core.claim(want(core, 1), now, effects);
  const Ticket first = core.claim(want(core, 1), now, effects);
  const Ticket second = core.claim(want(core, 1), now, effects);
  EXPECT_EQ(effects.granted, std::vector{holder});
  EXPECT_FALSE(core.try_claim(want(core, 1), now));
  EXPECT_EQ(core.release(holder, now).granted, std::vector{first});
  EXPECT_EQ(core.release(first, now).granted, std::vector{second});
}

}  // namespace
}  // namespace gpuyard::lease
