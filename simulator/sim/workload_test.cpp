#include "sim/workload.h"

#include <gtest/gtest.h>

#include <set>

#include "sim/fault.h"
#include "sim/pci_address.h"
#include "sim/world_for_tests.h"

namespace gpuyard::sim {
namespace {

using namespace std::chrono_literals;

TEST(Workload, TextNamesKindLoadAndMemory) {
  const Workload expected{.kind = WorkloadKind::steady, .load = 0.8, .vram_bytes = 40 * kGiB};
  EXPECT_EQ(*parse_workload("steady:0.8:40G"), expected);
  EXPECT_EQ(*parse_workload("training"), (Workload{.kind = WorkloadKind::training}));
  EXPECT_EQ(parse_workload("bursty::2M")->vram_bytes, 2U << 20);
}

TEST(Workload, TextRoundTrips) {
  for (const char* text :
       {"mixed", "steady:0.8:40G", "idle:0", "bursty:0.123456789", "training:0.9:40G:30s",
        "starved:::500ms", "leak:0.5:1G:3M", "leak:::1"}) {
    const auto workload = parse_workload(text);
    ASSERT_TRUE(workload) << text;
    EXPECT_EQ(*parse_workload(to_string(*workload)), *workload);
  }
}

TEST(Workload, WrongTextIsRefusedWhole) {
  for (const char* text :
       {"", "busy", "steady:1.5", "steady:-0.1", "steady:nan", "steady:0,8", "steady:0.5x",
        "steady:0.5:40Q", "steady:0.5:1:2", "steady:0.5:99999999999999G", "idle:::1s", "mixed:::1s",
        "training:::10ms", "training:::soon", "leak:::10s", "leak:::0", "starved:::5M"}) {
    const auto workload = parse_workload(text);
    ASSERT_FALSE(workload) << text;
    EXPECT_EQ(workload.error().code, Errc::invalid);
  }
}

TEST(Workload, LeakGrowsUntilMemoryIsFull) {
  Workload leak = *parse_workload("leak:0.5:10G:1G");
  leak.since = 100s;
  const auto memory_at = [&](std::chrono::milliseconds now) {
    return demand_at(leak, 0, now, 80 * kGiB).vram_bytes / kGiB;
  };
  EXPECT_EQ(memory_at(50s), 10U);
  EXPECT_EQ(memory_at(100s), 10U);
  EXPECT_EQ(memory_at(105s), 15U);
  EXPECT_EQ(memory_at(10'000s), 80U);
  EXPECT_EQ(demand_at(leak, 0, 105s, 80 * kGiB).load, 0.5);
}

TEST(Workload, TrainingPausesAtCheckpointInterval) {
  const Workload often = *parse_workload("training:1::10s");
  int pauses = 0;
  bool paused = false;
  for (auto now = 0ms; now < 60s; now += 10ms) {
    const bool low = demand_at(often, 0, now, kGiB).load < 0.1;
    if (low && !paused) ++pauses;
    paused = low;
  }
  EXPECT_EQ(pauses, 6);
}

TEST(Workload, DemandNeverExceedsTheGpu) {
  for (const auto kind :
       {WorkloadKind::idle, WorkloadKind::steady, WorkloadKind::training, WorkloadKind::bursty,
        WorkloadKind::mixed, WorkloadKind::leak, WorkloadKind::starved, WorkloadKind::waiting}) {
    for (std::uint32_t gpu = 0; gpu < 16; ++gpu) {
      const Workload workload{.kind = kind, .load = 1.0, .vram_bytes = 500 * kGiB};
      const Demand demand = demand_at(workload, gpu, 12'340ms, 80 * kGiB);
      EXPECT_GE(demand.load, 0.0);
      EXPECT_LE(demand.load, 1.0);
      EXPECT_LE(demand.vram_bytes, 80 * kGiB);
    }
  }
}

TEST(Workload, TrainingPausesForItsCheckpoints) {
  const Workload training{.kind = WorkloadKind::training};
  std::set<double> loads;
  for (auto at = 0ms; at < 60s; at += 10ms) loads.insert(demand_at(training, 0, at, kGiB).load);
  EXPECT_EQ(loads, (std::set{0.05, 0.45, 0.97}));
}

TEST(Fault, CallNamesRoundTrip) {
  for (auto call = Call::any; call <= Call::fan_speed;
       call = static_cast<Call>(static_cast<std::uint32_t>(call) + 1)) {
    EXPECT_EQ(call_from_name(name_of(call)), call);
  }
  EXPECT_FALSE(call_from_name("none"));
  EXPECT_FALSE(call_from_name("no_such_call"));
}

TEST(PciAddress, EverySpellingIsRead) {
  const PciAddress expected{.domain = 0, .bus = 0x1A, .device = 0, .function = 0};
  for (const char* text : {"00000000:1A:00.0", "0000:1a:00.0", "1A:00.0", "1a:00"}) {
    EXPECT_EQ(parse_pci_address(text), expected) << text;
  }
  for (const char* text : {"", "1A", "xx:00.0", "0000:1A:00.", "0000:1A:00.0 "}) {
    EXPECT_FALSE(parse_pci_address(text)) << text;
  }
}

}  // namespace
}  // namespace gpuyard::sim
