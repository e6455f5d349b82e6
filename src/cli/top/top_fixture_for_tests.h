// A machine of up to 64 GPUs, each of which does one of eight things.
#pragma once

#include <array>
#include <string>

#include <fmt/format.h>

#include "cli/top/render.h"
#include "gpu/device/catalog.h"

namespace gpuyard::cli::top {

inline constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;
inline constexpr std::int64_t kWatt = 1000;
inline const WallTime kNow = *from_rfc3339("2026-01-31T12:27:01Z");

// The load of one of eight GPUs, which repeats for further ones.
struct GpuFixture {
  std::int64_t use;
  std::int64_t memory_gib;
  std::int64_t celsius;
  std::int64_t watts;
  const char* user;  // of its lease; "": none
  const char* unleased_user;
  Bottleneck why;
};

inline const std::array<GpuFixture, 8> kGpuFixtures = {{
    {96,
     61,
     74,
     688,
     "alice",
     "",
     {BottleneckCause::power_cap, false, 38, "power cap 38%",
      "is limited by its power limit, 38% of the last minute: then at 1590 of 1980 MHz, not by "
      "heat (at most 74 of 89 C)",
      "The limit is already at its maximum: spread the work over more GPUs."}},
    {95,
     61,
     73,
     681,
     "alice",
     "",
     {BottleneckCause::power_cap, false, 35, "power cap 35%", "is limited by its power limit",
      "Spread the work over more GPUs."}},
    {99,
     12,
     41,
     118,
     "bob",
     "",
     {BottleneckCause::waiting,
      true,
      {},
      "busy at 17% W: waits",
      "is probably waiting: busy all the time at only 17% of its power limit, with 3% of its SMs "
      "active",
      "Its kernels are spinning: look for a slow or dead peer in its collective."}},
    {-1,
     0,
     0,
     0,
     "carol",
     "",
     {BottleneckCause::lost,
      false,
      {},
      "lost 12s",
      "has been lost for 12s: GPU is lost",
      "Its work has failed. Reset it (gpuyard reset) or replace it."}},
    {0,
     70,
     38,
     92,
     "dave",
     "",
     {BottleneckCause::leased_idle,
      false,
      {},
      "leased, idle 26m",
      "is leased but has been idle for 26m",
      "Ask the holder to release it."}},
    {61,
     33,
     66,
     402,
     "erin",
     "",
     {BottleneckCause::starved,
      true,
      {},
      "starved: CPU 1.0",
      "is probably waiting for its process on the CPU: 25% busy, while the process uses 1.0 cores",
      "Give the input pipeline more workers or cores, or use larger batches."}},
    {0, 0, 31, 71, "", "", {BottleneckCause::none, false, {}, "none", "has no bottleneck"}},
    {12,
     6,
     36,
     104,
     "",
     "mallory",
     {BottleneckCause::none, false, {}, "none", "has no bottleneck"}},
}};

inline protocol::Process process(std::uint32_t pid, const std::string& user, std::int64_t use,
                                 std::int64_t gibibytes, const std::string& command) {
  protocol::Process one;
  one.pid = pid;
  one.user = user;
  one.sm_percent = use;
  one.memory_bytes = gibibytes * kGibibyte;
  one.cpu_percent = 100.4;
  one.host_memory_bytes = 9 * kGibibyte;
  one.command = command;
  one.started_at = *from_rfc3339("2026-01-31T11:45:51Z");
  one.started_after_boot_ms = 1000 * static_cast<std::int64_t>(pid);
  return one;
}

inline protocol::Device device(std::uint32_t index, const GpuFixture& fixture) {
  protocol::Device out;
  out.index = index;
  out.uuid = fmt::format("GPU-{:08x}", index);
  out.pci_address = fmt::format("0000:{:02x}:00.0", index + 16);
  out.name = "NVIDIA H100 80GB HBM3";
  out.health = Health::healthy;
  out.bottleneck = fixture.why;
  const auto set = [&](Metric metric, std::int64_t value) {
    out.readings.set({metric, 0, {}, value});
  };
  if (fixture.use < 0) {
    out.condition = DeviceCondition::unavailable;
    out.why = "GPU is lost";
    out.health = Health::unhealthy;
    return out;
  }
  set(Metric::utilization_gpu, fixture.use);
  set(Metric::memory_used, fixture.memory_gib * kGibibyte);
  set(Metric::memory_total, 80 * kGibibyte);
  set(Metric::temperature_core, fixture.celsius);
  set(Metric::temperature_slowdown, 89);
  set(Metric::power_draw, fixture.watts * kWatt);
  set(Metric::power_limit, 700 * kWatt);
  set(Metric::clock_sm, 1590);
  set(Metric::clock_sm_max, 1980);
  const std::string user = *fixture.user != '\0' ? fixture.user : fixture.unleased_user;
  out.processes.emplace();
  if (!user.empty()) {
    out.processes->push_back(
        process(41'207 + 11 * index, user, fixture.use, fixture.memory_gib, "python"));
    out.processes->push_back(process(41'300 + 11 * index, user, 0, 0, "tensorboard"));
  }
  return out;
}

inline Model make_model(std::size_t gpus) {
  Model model;
  model.host = "node7";
  model.now = model.data.fetched_at = kNow;
  model.data.leases.emplace();
  model.data.queue.emplace();
  model.data.queue->pending_claimers = 2;
  for (std::uint32_t index = 0; index < gpus; ++index) {
    const GpuFixture& fixture = kGpuFixtures[index % kGpuFixtures.size()];
    model.data.snapshot.devices.push_back(device(index, fixture));
    const protocol::Device& made = model.data.snapshot.devices.back();
    for (std::size_t second = 0; second < kUtilizationSamples; ++second) {
      const double wave = static_cast<double>((second * 7 + index) % 10) / 40;
      model.utilization[made.uuid].push_back(
          fixture.use < 0 ? kNoValue
                          : std::max(0.0, static_cast<double>(fixture.use) / 100 - wave));
    }
    if (*fixture.user != '\0') {
      protocol::Lease lease;
      lease.id = fmt::format("{:016x}", 0x7f3a'0000'0000'0000U + index);
      lease.user = fixture.user;
      lease.uid = lease.user == "alice" ? 1000 : 1001;
      lease.gpus.push_back({index, made.uuid, made.pci_address, made.name, {}, {}});
      lease.use.emplace().held = std::chrono::minutes(192);
      model.data.leases->leases.push_back(std::move(lease));
    }
    if (*fixture.unleased_user != '\0') {
      const std::uint32_t pid = 41'207 + 11 * index;
      model.data.queue->squatters.push_back({pid, index, made.uuid, 1007, fixture.unleased_user,
                                             "python", 6 * kGibibyte, 4800,
                                             fmt::format("gpuyard lease adopt --pid {}", pid)});
    }
  }
  protocol::Lease waiting;
  waiting.id = "9a00000000000000";
  waiting.uid = 1002;
  waiting.user = "gina";
  waiting.wanted_gpus = 2;
  waiting.place = protocol::QueuePosition{1, "busy", "1 of the 2 GPUs is free", 1080.0};
  model.data.queue->waiting.push_back(waiting);
  protocol::Alert alert;
  alert.number = 17;
  alert.rule = "gpu-lost";
  alert.level = AlertLevel::critical;
  alert.device = protocol::AlertGpu{};
  alert.device->index = 3;
  alert.device->uuid = "GPU-00000003";
  alert.message = "fell off the bus (Xid 79)";
  alert.advice = "gpuyard reset 3, or replace it.";
  model.data.alerts.emplace();
  if (gpus > 3) model.data.alerts->alerts.push_back(alert);
  model.daemon = "/run/gpuyard/gpuyard.sock";
  model.has_history = true;
  model.uid = 1000;
  model.user = "alice";
  sort_lists(model);
  return model;
}

// Presses the keys that a terminal would send so; returns what the last one asked for.
inline SessionAction press_keys(Model& model, std::string bytes) {
  SessionAction effect;
  const Grid shown = render(model, {80, 24}, Charset::block);
  while (!bytes.empty()) effect = handle_key(model, take_stroke(bytes, true), shown);
  return effect;
}

}  // namespace gpuyard::cli::top
