#include "sim/world.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "sim/pcie_link.h"

namespace gpuyard::sim {
namespace {

constexpr std::uint32_t kBanks = 640;  // each has spare rows at first

std::uint64_t hash_of(std::string_view text, std::uint64_t seed) {  // FNV-1a
  std::uint64_t hash = 0xCBF29CE484222325U ^ seed;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  }
  return hash ^ (hash >> 29);
}

// Writes a UUID that looks random and is the same in every run:
// GPU-xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx.
void put_uuid(Identity& identity, std::string_view model, std::uint32_t index,
              std::uint64_t machine) {
  const std::uint64_t high = hash_of(model, machine ^ (index * 0x9E3779B97F4A7C15U));
  const std::uint64_t low = hash_of(model, ~high);
  std::snprintf(identity.uuid, sizeof identity.uuid, "GPU-%08x-%04x-4%03x-8%03x-%012llx",
                static_cast<unsigned>(high >> 32), static_cast<unsigned>(high >> 16) & 0xFFFFU,
                static_cast<unsigned>(high) & 0xFFFU, static_cast<unsigned>(low >> 48) & 0xFFFU,
                static_cast<unsigned long long>(low & 0xFFFFFFFFFFFFU));
}

Identity make_identity(const Model& model, std::uint32_t index, std::string_view machine_name) {
  const std::uint64_t machine = machine_name.empty() ? 0 : hash_of(machine_name, 0);
  Identity identity;
  std::memcpy(identity.model, model.key.data(),
              std::min(model.key.size(), sizeof identity.model - 1));
  put_uuid(identity, model.key, index, machine);
  if (model.has_serial)
    std::snprintf(identity.serial, sizeof identity.serial, "%013llu",
                  static_cast<unsigned long long>(1'320'000'000'000U +
                                                  machine % 1'000'000U * kMaxGpus + index));
  // A bus of its own for each GPU: some tools drop the domain.
  identity.pci_bus = 0x11 + 3 * index;
  static_assert(0x11 + 3 * (kMaxGpus - 1) <= 0xFF);
  identity.minor_number = index;
  return identity;
}

// Converts loads in permille of the GPU to shares.
constexpr double kPermille = 1000.0;

Gpu gpu_at_rest(const Model& model, std::uint32_t index, const World& world,
                const Workload& workload, std::string_view machine) {
  Gpu gpu;
  gpu.model = &model;
  gpu.identity = make_identity(model, index, machine);
  gpu.workload = workload;
  gpu.settings.power_limit_mw = model.power_limit_default_mw;
  gpu.settings.ecc_mode = gpu.settings.ecc_mode_pending = model.has_ecc ? 1 : 0;
  gpu.power_mw = gpu.power_average_mw = static_cast<double>(model.idle_mw);
  gpu.temperature = world.ambient + model.idle_mw / 1000.0 * model.thermal_resistance;
  gpu.memory_temperature = gpu.temperature;
  gpu.sm_clock_mhz = model.clocks.idle_sm;
  gpu.memory_clock_mhz = model.clocks.idle_memory;
  gpu.clock_reasons = kReasonIdle;
  gpu.idle_for = kIdleDelay;
  if (model.memory_repair == MemoryRepair::remapped_rows) gpu.memory.rows.banks_max = kBanks;
  return gpu;
}

}  // namespace

void ProcessSet::update_sums() {
  load_ = encoder_ = decoder_ = 0;
  memory_bytes_ = 0;
  max_load_permille_ = 0;
  for (const ProcessRecord& process : list_) {
    load_ += process.load_permille / kPermille;
    encoder_ += process.encoder_permille / kPermille;
    decoder_ += process.decoder_permille / kPermille;
    max_load_permille_ =
        std::max({max_load_permille_, process.load_permille, process.memory_load_permille,
                  process.encoder_permille, process.decoder_permille});
    if (memory_bytes_ && process.memory_bytes <= UINT64_MAX - *memory_bytes_) {
      *memory_bytes_ += process.memory_bytes;
    } else {
      memory_bytes_.reset();
    }
  }
}

World make_world(const Fleet& fleet, const Workload& workload, double ambient,
                 std::string_view machine) {
  World world;
  world.ambient = ambient;
  for (std::uint32_t index = 0; index < fleet.size(); ++index) {
    world.gpus.push_back(gpu_at_rest(*fleet[index], index, world, workload, machine));
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

// From a GPU's physical state to what its sensors show.
namespace {

constexpr std::uint64_t kUjPerMj = 1000;
constexpr double kMaxFanRpm = 3200.0;

std::uint32_t rounded(double value) {
  return static_cast<std::uint32_t>(std::lround(std::max(0.0, value)));
}

std::uint32_t percent(double share) {
  return rounded(std::clamp(share, 0.0, 1.0) * 100.0);
}

void put_counters(const Gpu& gpu, GpuRecord& record) {
  const Counters& counters = gpu.counters;
  record.elapsed_us = counters.elapsed_us;
  record.energy_mj = counters.energy_uj / kUjPerMj;
  record.activity_us = counters.activity_us;
  record.encoder_us = counters.encoder_us;
  record.decoder_us = counters.decoder_us;
  record.pcie_tx_bytes = counters.pcie_tx_bytes;
  record.pcie_rx_bytes = counters.pcie_rx_bytes;
  const std::uint32_t links = gpu.model->nvlink.links;
  std::fill_n(record.nvlink_tx_bytes.begin(), links, counters.nvlink_tx_bytes);
  std::fill_n(record.nvlink_rx_bytes.begin(), links, counters.nvlink_rx_bytes);
  const std::uint32_t down = std::min(gpu.fault.nvlinks_down, links);
  record.nvlinks_up = ((1U << links) - 1U) & ~((1U << down) - 1U);
  record.power_cap_ns = counters.power_cap_ns;
  record.application_clocks_ns = counters.application_clocks_ns;
  record.software_thermal_ns = counters.software_thermal_ns;
  record.hardware_thermal_ns = counters.hardware_thermal_ns;
}

void put_memory(const Gpu& gpu, GpuRecord& record) {
  const MemoryHealth& memory = gpu.memory;
  record.ecc_volatile_corrected = memory.volatile_corrected;
  record.ecc_volatile_uncorrected = memory.volatile_uncorrected;
  record.ecc_aggregate_corrected = memory.aggregate_corrected;
  record.ecc_aggregate_uncorrected = memory.aggregate_uncorrected;
  record.rows = memory.rows;
  record.rows.pending |= gpu.fault.rows_pending;
  record.rows.failed |= gpu.fault.rows_failed;
  record.retired_pages_single_bit = memory.retired_pages_single_bit;
  record.retired_pages_double_bit = memory.retired_pages_double_bit;
  record.retired_pages_pending = memory.retired_pages_pending;
}

void put_sensors(const Gpu& gpu, GpuRecord& record) {
  const Model& model = *gpu.model;
  record.power_mw = rounded(gpu.power_mw);
  record.power_average_mw = rounded(gpu.power_average_mw);
  record.sm_clock_mhz = gpu.sm_clock_mhz;
  record.memory_clock_mhz = gpu.memory_clock_mhz;
  record.video_clock_mhz = static_cast<std::uint32_t>(std::uint64_t{gpu.sm_clock_mhz} *
                                                      model.clocks.max_video / model.clocks.max_sm);
  record.temperature_celsius = rounded(gpu.temperature);
  if (model.has_memory_temperature) {
    record.memory_temperature_celsius = rounded(gpu.memory_temperature);
  }
  for (std::uint32_t fan = 0; fan < model.fans; ++fan) {
    record.fan_percent[fan] = rounded(gpu.fan_percent);
    record.fan_rpm[fan] = rounded(gpu.fan_percent / 100.0 * kMaxFanRpm);
  }
  record.gpu_utilization_percent = percent(gpu.demand.load);
  record.memory_utilization_percent = percent(gpu.activities.of(Activity::dram));
  record.encoder_utilization_percent = percent(gpu.activities.encoder);
  record.decoder_utilization_percent = percent(gpu.activities.decoder);
  const bool rests = gpu.idle_for >= kIdleDelay;
  record.performance_state = rests ? model.idle_performance_state : model.busy_performance_state;
  record.pcie_generation = pcie_generation(gpu);
  record.pcie_width = pcie_width(gpu);
  record.pcie_tx_bytes_per_s = bytes_per_s(gpu, gpu.activities.pcie_tx);
  record.pcie_rx_bytes_per_s = bytes_per_s(gpu, gpu.activities.pcie_rx);
}

void put_settings(const Gpu& gpu, GpuRecord& record) {
  const Settings& settings = gpu.settings;
  record.power_limit_mw = settings.power_limit_mw;
  record.locked_sm_min_mhz = settings.locked_sm_min_mhz;
  record.locked_sm_max_mhz = settings.locked_sm_max_mhz;
  record.locked_memory_min_mhz = settings.locked_memory_min_mhz;
  record.locked_memory_max_mhz = settings.locked_memory_max_mhz;
  record.persistence_mode = settings.persistence_mode;
  record.compute_mode = settings.compute_mode;
  record.ecc_mode = settings.ecc_mode;
  record.ecc_mode_pending = settings.ecc_mode_pending;
}

}  // namespace

GpuRecord record_of(const Gpu& gpu) {
  GpuRecord record;
  record.memory_used_bytes = gpu.demand.vram_bytes;
  record.clock_reasons = gpu.clock_reasons;
  put_counters(gpu, record);
  put_memory(gpu, record);
  put_sensors(gpu, record);
  put_settings(gpu, record);
  record.workload_kind = static_cast<std::uint32_t>(gpu.workload.kind);
  record.process_count = static_cast<std::uint32_t>(gpu.processes.list().size());
  record.process_share_permille = rounded(gpu.process_share * 1000.0);
  record.plug_count = gpu.plug_count;
  record.plugged = gpu.plugged ? 1 : 0;
  record.fault = gpu.fault;
  return record;
}

DriverRecord driver_record_of(const World& world) {
  DriverRecord record;
  record.session = world.driver.session;
  record.elapsed_ms = static_cast<std::uint64_t>(world.age().count());
  record.loaded = world.driver.loaded ? 1 : 0;
  record.process_entry_bytes = world.process_entry_bytes;
  world.driver.version.copy(record.version, sizeof record.version - 1);
  record.time_mode = world.time.mode;
  record.speed_permille = rounded(world.time.speed * 1000.0);
  record.timeline_entries = world.timeline_entries;
  record.timeline_done = world.timeline_done;
  record.timeline_refused = world.timeline_refused;
  record.setters = world.setters;
  record.gpu_count = static_cast<std::uint32_t>(world.order.size());
  for (std::size_t i = 0; i < world.order.size(); ++i) {
    record.order[i] = static_cast<std::uint8_t>(world.order[i]);
  }
  record.calls = world.fault.calls;
  return record;
}

namespace {

constexpr int kMaxGpuCount = static_cast<int>(kMaxGpus);

struct Part {
  const Model* model = nullptr;
  std::optional<int> count;
};

std::string known_models() {
  std::string names;
  for (const Model& model : all_models()) {
    names += (names.empty() ? "" : ", ") + std::string(model.key);
  }
  return names;
}

Error count_error(std::string_view text) {
  return Error{Errc::invalid, fmt::format("\"{}\": the count must be 1 to {}", text, kMaxGpuCount)};
}

Result<Part> parse_part(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view key = text.substr(0, colon);
  Part part{.model = find_model(key), .count = std::nullopt};
  if (part.model == nullptr) {
    return Error{Errc::invalid, fmt::format("unknown GPU model \"{}\"; available models: {}", key,
                                            known_models())};
  }
  if (colon == std::string_view::npos) return part;
  part.count = parse_number<int>(text.substr(colon + 1));
  if (!part.count || *part.count < 1 || *part.count > kMaxGpuCount) return count_error(text);
  return part;
}

Result<std::vector<Part>> parse_parts(std::string_view text) {
  std::vector<Part> parts;
  while (true) {
    const std::size_t comma = text.find(',');
    auto part = parse_part(text.substr(0, comma));
    if (!part) return std::move(part).error();
    if (std::ranges::find(parts, part->model, &Part::model) != parts.end()) {
      return Error{Errc::invalid, fmt::format("{0} is named twice; give it one count, as in {0}:2",
                                              part->model->key)};
    }
    parts.push_back(*part);
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

Error fleet_size_error(int gpus) {
  return Error{Errc::invalid,
               fmt::format("the number of GPUs must be 1 to {}, not {}", kMaxGpuCount, gpus)};
}

}  // namespace

Result<Fleet> parse_fleet(std::string_view models, std::optional<int> gpus) {
  if (gpus && (*gpus < 1 || *gpus > kMaxGpuCount)) return fleet_size_error(*gpus);
  auto parts = parse_parts(models);
  if (!parts) return std::move(parts).error();
  if (parts->size() == 1 && !parts->front().count) {
    return Fleet(static_cast<std::size_t>(gpus.value_or(kDefaultGpus)), parts->front().model);
  }
  Fleet fleet;
  for (const Part& part : *parts) {
    fleet.insert(fleet.end(), static_cast<std::size_t>(part.count.value_or(1)), part.model);
  }
  const int total = static_cast<int>(fleet.size());
  if (total > kMaxGpuCount) return fleet_size_error(total);
  if (gpus && *gpus != total) {
    return Error{Errc::invalid, fmt::format("\"{}\" is {} GPUs, not {}", models, total, *gpus)};
  }
  return fleet;
}

}  // namespace gpuyard::sim
