// Measures leasing without any disk: a claim and its release, by GPUs and topology; a long queue;
// and the memory that a waiting claim takes. Prints the results.
#include <malloc.h>

#include <cstdlib>
#include <string>

#include <benchmark/benchmark.h>

#include "core/lease/scheduler.h"
#include "gpuyard/pool.h"

namespace gpuyard {
namespace {

using lease::Effects;
using lease::GpuRequest;
using lease::Scheduler;
using lease::Ticket;

// If `linked`, eight GPUs each are linked, and four each share a NUMA node.
Scheduler node(std::int64_t gpus, bool linked) {
  Scheduler scheduler;
  for (unsigned i = 0; i < gpus; ++i) {
    lease::Gpu gpu;
    gpu.key = "GPU-" + std::to_string(1000 + i);
    gpu.availability.temperature_c = 40 + i % 7;
    if (linked) {
      gpu.clique = i / 8;
      gpu.numa_node = i / 4;
    }
    if (!scheduler.add(std::move(gpu))) std::abort();
  }
  return scheduler;
}

GpuRequest all_of(const Scheduler& scheduler, unsigned count = 1) {
  GpuRequest request;
  request.count = count;
  request.eligible = scheduler.allocations().known();
  return request;
}

// Arguments: GPUs, whether they are linked, GPUs wanted.
void claim_and_release(benchmark::State& state) {
  Scheduler scheduler = node(state.range(0), state.range(1) != 0);
  const GpuRequest request = all_of(scheduler, static_cast<unsigned>(state.range(2)));
  for (auto _ : state) {
    Effects effects;
    const Ticket ticket = scheduler.claim(request, {}, effects);
    if (effects.granted.size() != 1) std::abort();
    benchmark::DoNotOptimize(scheduler.release(ticket, {}));
  }
}
BENCHMARK(claim_and_release)
    ->Args({8, 0, 1})
    ->Args({8, 1, 1})
    ->Args({8, 1, 4})
    ->Args({64, 1, 1})
    ->Args({64, 1, 8});

// Measures the public Pool: with the mutex and the lease that releases itself.
void pool_claim_and_release(benchmark::State& state) {
  std::vector<Pool::Gpu> gpus(static_cast<std::size_t>(state.range(0)));
  for (std::uint32_t i = 0; i < gpus.size(); ++i) gpus[i] = {i, "NVIDIA", "NVIDIA H100 80GB HBM3"};
  const auto pool = Pool::of(gpus);
  if (!pool) std::abort();
  for (auto _ : state) {
    auto lease = pool->claim(std::chrono::milliseconds(1000));
    if (!lease) std::abort();
    benchmark::DoNotOptimize(lease);
  }
}
BENCHMARK(pool_claim_and_release)->Arg(8)->Arg(64);

// Many claims wait; one GPU after the other is released, and the client that got it claims again.
// Aborts if a claim is served out of order.
void queue(benchmark::State& state) {
  Scheduler scheduler = node(8, true);
  Effects effects;
  const GpuRequest request = all_of(scheduler);
  for (std::int64_t i = 0; i < state.range(0) + 8; ++i) scheduler.claim(request, {}, effects);
  Ticket last = effects.granted.back();
  for (auto _ : state) {
    Effects now = scheduler.release(scheduler.allocations().claims().begin()->first, {});
    scheduler.claim(request, {}, now);
    if (now.granted.size() != 1 || now.granted[0] != ++last) std::abort();
  }
}
BENCHMARK(queue)->Arg(100)->Arg(10'000);

// The queue position of each waiting claim.
void queue_positions_of_waiters(benchmark::State& state) {
  Scheduler scheduler = node(8, true);
  Effects effects;
  for (std::int64_t i = 0; i < state.range(0) + 8; ++i)
    scheduler.claim(all_of(scheduler), {}, effects);
  for (auto _ : state) benchmark::DoNotOptimize(scheduler.queue_positions({}));
}
BENCHMARK(queue_positions_of_waiters)->Arg(10'000)->Unit(benchmark::kMicrosecond);

// A free GPU is reserved for the first claim. The 10,000 claims behind it must all be checked, as
// each could end in time, but none does.
void check_waiting_claims(benchmark::State& state) {
  Scheduler scheduler = node(8, true);
  Effects effects;
  GpuRequest request = all_of(scheduler);
  request.max_hold_time = std::chrono::hours(1);
  scheduler.claim(request, {}, effects);
  scheduler.claim(all_of(scheduler, 8), {}, effects);
  request.max_hold_time = std::chrono::hours(2);
  for (std::int64_t i = 0; i < state.range(0); ++i) scheduler.claim(request, {}, effects);
  if (effects.granted.size() != 1) std::abort();
  for (auto _ : state) benchmark::DoNotOptimize(scheduler.open({}));
}
BENCHMARK(check_waiting_claims)->Arg(10'000)->Unit(benchmark::kMicrosecond);

void waiting_claim_memory(benchmark::State& state) {
  for (auto _ : state) {
    Scheduler scheduler = node(8, true);
    Effects effects;
    for (int i = 0; i < 8; ++i) scheduler.claim(all_of(scheduler), {}, effects);
    const std::size_t before = ::mallinfo2().uordblks;
    constexpr std::size_t kWaiting = 10'000;
    for (std::size_t i = 0; i < kWaiting; ++i) scheduler.claim(all_of(scheduler), {}, effects);
    state.counters["bytes"] =
        static_cast<double>(::mallinfo2().uordblks - before) / double{kWaiting};
  }
}
BENCHMARK(waiting_claim_memory)->Iterations(1);

}  // namespace
}  // namespace gpuyard

BENCHMARK_MAIN();
