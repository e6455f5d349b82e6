#include "core/lease/placement.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/lease/scheduler_fixture_for_tests.h"

namespace gpuyard::lease {
namespace {

struct Topology {
  std::optional<unsigned> clique = {};
  std::optional<unsigned> numa_node = {};
  std::optional<std::int64_t> temperature_c = {};
};

std::vector<Gpu> node(const std::vector<Topology>& places) {
  std::vector<Gpu> gpus;
  for (const Topology& where : places) {
    Gpu gpu = gpu_named("GPU-" + std::to_string(gpus.size()));
    gpu.clique = where.clique;
    gpu.numa_node = where.numa_node;
    gpu.availability.temperature_c = where.temperature_c;
    gpus.push_back(gpu);
  }
  return gpus;
}

GpuSet all(const std::vector<Gpu>& gpus) {
  GpuSet set;
  for (Slot slot = 0; slot < gpus.size(); ++slot) set.set(slot);
  return set;
}

TEST(Placement, TheCoolestComeFirst) {
  const auto gpus = node({{{}, {}, 60}, {{}, {}, 40}, {{}, {}, 50}});
  EXPECT_EQ(choose_placement(gpus, all(gpus), 1), slots({1}));
  EXPECT_EQ(choose_placement(gpus, all(gpus), 2), slots({1, 2}));
}

TEST(Placement, UnknownTemperatureComesLast) {
  const auto gpus = node({{}, {{}, {}, 90}});
  EXPECT_EQ(choose_placement(gpus, all(gpus), 1), slots({1}));
}

TEST(Placement, AmongEqualsTheKeyDecidesNotTheSlot) {
  auto gpus = node({{}, {}, {}});
  std::swap(gpus[0].key, gpus[2].key);
  EXPECT_EQ(choose_placement(gpus, all(gpus), 1), slots({2}));
}

TEST(Placement, CompleteCliqueIsPreferredToPartsOfTwo) {
  const auto gpus = node({{0, {}, 30}, {1, {}, 60}, {1, {}, 60}, {0, {}, 60}});
  EXPECT_EQ(choose_placement(gpus, all(gpus) & ~slots({3}), 2), slots({1, 2}));
}

TEST(Placement, SmallestSufficientCliqueIsTaken) {
  const auto gpus = node({{0}, {0}, {0}, {0}, {1}, {1}});
  EXPECT_EQ(choose_placement(gpus, all(gpus), 2), slots({4, 5}));
  EXPECT_EQ(choose_placement(gpus, all(gpus), 1), slots({4}));
  EXPECT_EQ(choose_placement(gpus, all(gpus), 3), slots({0, 1, 2}));
}

TEST(Placement, LargestCliqueIsTakenIfNoneSuffices) {
  const auto gpus = node({{0}, {0}, {1}, {1}, {1}, {2}});
  EXPECT_EQ(choose_placement(gpus, all(gpus), 4), slots({2, 3, 4, 5}));
}

TEST(Placement, WithinACliqueOneNumaNodeIsPreferred) {
  const auto gpus = node({{0, 0}, {0, 1}, {0, 1}, {0, 0, 20}});
  EXPECT_EQ(choose_placement(gpus, all(gpus) & ~slots({0}), 2), slots({1, 2}));
}

TEST(Placement, WithoutLinksOneNumaNodeIsPreferred) {
  const auto gpus = node({{{}, 0, 20}, {{}, 1, 60}, {{}, 1, 60}});
  EXPECT_EQ(choose_placement(gpus, all(gpus), 2), slots({1, 2}));
}

TEST(Placement, GpusWithUnknownTopologyFormSeparateGroups) {
  const auto gpus = node({{{}}, {{}}, {0}, {0}});
  EXPECT_EQ(choose_placement(gpus, all(gpus), 2), slots({2, 3}));
}

TEST(Placement, RequestForAllTakesEveryUsableGpu) {
  const auto gpus = node({{0}, {1}, {}});
  EXPECT_EQ(choose_placement(gpus, all(gpus), 3), all(gpus));
}

TEST(Placement, EveryUsableSetYieldsRequestedCount) {
  const auto gpus = node({{0, 0, 1}, {0, 1, 2}, {1, 1, {}}, {}, {1, {}, 4}, {{}, 0, 4}, {2, 2, 9}});
  for (unsigned bits = 1; bits < 1U << gpus.size(); ++bits) {
    const GpuSet usable(bits);
    for (unsigned count = 1; count <= usable.count(); ++count) {
      const GpuSet placed = choose_placement(gpus, usable, count);
      ASSERT_EQ(placed.count(), count) << bits;
      ASSERT_EQ(placed & ~usable, GpuSet()) << bits;
    }
  }
}

}  // namespace

}  // namespace gpuyard::lease
