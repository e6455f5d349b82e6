#include "sim/world.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace gpuyard::sim {
namespace {

constexpr std::uint64_t kUjPerMj = 1000;

std::uint64_t hash_of(std::string_view text, std::uint64_t seed) {  // FNV-1a
  std::uint64_t hash = 0xCBF29CE484222325U ^ seed;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  }
  return hash ^ (hash >> 29);
}

// Looks random and is the same in every run: GPU-xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx.
void put_uuid(Identity& identity, std::string_view model, std::uint32_t index) {
  const std::uint64_t high = hash_of(model, index * 0x9E3779B97F4A7C15U);
  const std::uint64_t low = hash_of(model, ~high);
  std::snprintf(identity.uuid, sizeof identity.uuid, "GPU-%08x-%04x-4%03x-8%03x-%012llx",
                static_cast<unsigned>(high >> 32), static_cast<unsigned>(high >> 16) & 0xFFFFU,
                static_cast<unsigned>(high) & 0xFFFU, static_cast<unsigned>(low >> 48) & 0xFFFU,
                static_cast<unsigned long long>(low & 0xFFFFFFFFFFFFU));
}

Identity make_identity(const Model& model, std::uint32_t index) {
  Identity identity;
  std::memcpy(identity.model, model.key.data(),
              std::min(model.key.size(), sizeof identity.model - 1));
  put_uuid(identity, model.key, index);
  std::snprintf(identity.serial, sizeof identity.serial, "%013llu",
                static_cast<unsigned long long>(1'320'000'000'000U + index));
  // A bus of its own for each GPU: some tools drop the domain.
  identity.pci_bus = 0x11 + 3 * index;
  static_assert(0x11 + 3 * (kMaxGpus - 1) <= 0xFF);
  identity.minor_number = index;
  return identity;
}

std::uint32_t percent(double share) {
  return static_cast<std::uint32_t>(std::lround(std::clamp(share, 0.0, 1.0) * 100.0));
}

}  // namespace

World make_world(const Model& model, std::uint32_t gpus, const Workload& workload) {
  World world;
  for (std::uint32_t index = 0; index < gpus; ++index) {
    Gpu gpu{.model = &model,
            .identity = make_identity(model, index),
            .workload = workload,
            .power_limit_mw = model.cap_default_mw,
            .fault = {},
            .demand = {},
            .power_mw = static_cast<double>(model.idle_mw),
            .temperature = world.ambient + model.idle_mw / 1000.0 * model.thermal_resistance,
            .sm_clock_mhz = model.idle_sm_clock_mhz,
            .energy_uj = 0,
            .clock_reasons = kReasonIdle};
    world.gpus.push_back(gpu);
  }
  return world;
}

GpuRecord record_of(const Gpu& gpu) {
  const Model& model = *gpu.model;
  GpuRecord record;
  record.memory_used_bytes = gpu.demand.vram_bytes;
  record.energy_mj = gpu.energy_uj / kUjPerMj;
  record.clock_reasons = gpu.clock_reasons;
  record.power_mw = static_cast<std::uint32_t>(std::lround(gpu.power_mw));
  record.power_limit_mw = gpu.power_limit_mw;
  record.sm_clock_mhz = gpu.sm_clock_mhz;
  record.memory_clock_mhz = model.memory_clock_mhz;
  record.video_clock_mhz = static_cast<std::uint32_t>(
      std::uint64_t{gpu.sm_clock_mhz} * model.max_video_clock_mhz / model.max_sm_clock_mhz);
  record.temperature_celsius =
      static_cast<std::uint32_t>(std::lround(std::max(0.0, gpu.temperature)));
  record.gpu_utilization_percent = percent(gpu.demand.load);
  // Memory is busy for a good part of the time in which kernels run.
  record.memory_utilization_percent = percent(gpu.demand.load * 0.6);
  record.workload_kind = static_cast<std::uint32_t>(gpu.workload.kind);
  record.fault = gpu.fault;
  return record;
}

}  // namespace gpuyard::sim
