#include "sim/world.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace gpuyard::sim {
namespace {

constexpr std::uint32_t kBanks = 640;  // of which each has spare rows at first

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
  if (model.has_serial)
    std::snprintf(identity.serial, sizeof identity.serial, "%013llu",
                  static_cast<unsigned long long>(1'320'000'000'000U + index));
  // A bus of its own for each GPU: some tools drop the domain.
  identity.pci_bus = 0x11 + 3 * index;
  static_assert(0x11 + 3 * (kMaxGpus - 1) <= 0xFF);
  identity.minor_number = index;
  return identity;
}

// Of the loads, in permille, as a share of the GPU.
constexpr double kPermille = 1000.0;

Gpu gpu_at_rest(const Model& model, std::uint32_t index, const World& world,
                const Workload& workload) {
  Gpu gpu;
  gpu.model = &model;
  gpu.identity = make_identity(model, index);
  gpu.workload = workload;
  gpu.settings.power_limit_mw = model.cap_default_mw;
  gpu.settings.ecc_mode = gpu.settings.ecc_mode_pending = model.has_ecc ? 1 : 0;
  gpu.power_mw = gpu.power_average_mw = static_cast<double>(model.idle_mw);
  gpu.temperature = world.ambient + model.idle_mw / 1000.0 * model.thermal_resistance;
  gpu.memory_temperature = gpu.temperature;
  gpu.sm_clock_mhz = model.clocks.idle_sm;
  gpu.memory_clock_mhz = model.clocks.idle_memory;
  gpu.clock_reasons = kReasonIdle;
  gpu.idle_for = kRestsAfter;
  if (model.memory_repair == MemoryRepair::remapped_rows) gpu.memory.rows.banks_max = kBanks;
  return gpu;
}

}  // namespace

void Processes::sum_up() {
  load_ = encoder_ = decoder_ = 0;
  memory_bytes_ = 0;
  most_asked_ = 0;
  for (const ProcessRecord& process : list_) {
    load_ += process.load_permille / kPermille;
    encoder_ += process.encoder_permille / kPermille;
    decoder_ += process.decoder_permille / kPermille;
    most_asked_ = std::max({most_asked_, process.load_permille, process.memory_load_permille,
                            process.encoder_permille, process.decoder_permille});
    if (memory_bytes_ && process.memory_bytes <= UINT64_MAX - *memory_bytes_) {
      *memory_bytes_ += process.memory_bytes;
    } else {
      memory_bytes_.reset();
    }
  }
}

World make_world(const Fleet& fleet, const Workload& workload, double ambient) {
  World world;
  world.ambient = ambient;
  for (std::uint32_t index = 0; index < fleet.size(); ++index) {
    world.gpus.push_back(gpu_at_rest(*fleet[index], index, world, workload));
    world.order.push_back(index);
  }
  return world;
}

World make_world(const Model& model, std::uint32_t gpus, const Workload& workload) {
  return make_world(Fleet(gpus, &model), workload);
}

std::uint64_t usable_memory(const Model& model) {
  return model.memory_total_bytes - model.memory_reserved_bytes;
}

}  // namespace gpuyard::sim
