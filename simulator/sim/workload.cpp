#include "sim/workload.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "base/record.h"
#include "base/text.h"
#include "sim/scenario_table.h"

namespace gpuyard::sim {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr milliseconds kCheckpointInterval = 60s;
constexpr milliseconds kCheckpointDuration = 4s;
constexpr milliseconds kBatchDuration = 1500ms;
constexpr milliseconds kDataWait = 120ms;
constexpr milliseconds kBurstWindow = 500ms;
constexpr milliseconds kBatchInterval = 1s;
constexpr double kBatchShare = 0.15;  // of the period: the rest is waiting
constexpr double kWaitingEffort = 0.1;
constexpr milliseconds kMinPeriod = 100ms;

// Offsets each GPU's period: otherwise all GPUs of a training job would checkpoint in the same
// millisecond.
milliseconds phase_of(std::uint32_t gpu) {
  return milliseconds(gpu * 370);
}

milliseconds period_or(const Workload& workload, milliseconds usual) {
  return workload.period > milliseconds{0} ? workload.period : usual;
}

double training_load(const Workload& workload, std::uint32_t gpu, milliseconds elapsed) {
  const milliseconds now = elapsed + phase_of(gpu);
  const milliseconds every = period_or(workload, kCheckpointInterval);
  const milliseconds takes = kCheckpointDuration * every.count() / kCheckpointInterval.count();
  if (now % every >= every - takes) return 0.05;
  return now % kBatchDuration >= kBatchDuration - kDataWait ? 0.45 : 0.97;
}

std::uint64_t scramble(std::uint64_t value) {  // the finaliser of splitmix64
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31);
}

double starved_load(const Workload& workload, std::uint32_t gpu, milliseconds elapsed) {
  const milliseconds every = period_or(workload, kBatchInterval);
  const auto within = static_cast<double>(((elapsed + phase_of(gpu)) % every).count());
  return within < kBatchShare * static_cast<double>(every.count()) ? 0.9 : 0.0;
}

double bursty_load(const Workload& workload, std::uint32_t gpu, milliseconds elapsed) {
  const auto window = static_cast<std::uint64_t>(elapsed / period_or(workload, kBurstWindow));
  const std::uint64_t dice = scramble(window * 1021 + gpu + 1) % 100;
  if (dice < 35) return 0.0;
  return static_cast<double>(dice) / 100.0;
}

// The workload of one GPU of a mixed fleet. The load and memory given for the mix apply to its
// parts. Even a small fleet has some idle GPUs, because only idle ones can be leased.
Workload part_of_mix(const Workload& mix, std::uint32_t gpu) {
  constexpr std::array kinds{WorkloadKind::training, WorkloadKind::idle,   WorkloadKind::bursty,
                             WorkloadKind::idle,     WorkloadKind::steady, WorkloadKind::training,
                             WorkloadKind::bursty,   WorkloadKind::idle};
  const WorkloadKind kind = kinds[gpu % kinds.size()];
  return {.kind = kind,
          .load = mix.load * (kind == WorkloadKind::steady ? 0.6 : 1.0),
          .vram_bytes = kind == WorkloadKind::idle ? 0 : mix.vram_bytes};
}

double load_of(const Workload& workload, std::uint32_t gpu, milliseconds elapsed) {
  switch (workload.kind) {
    case WorkloadKind::steady:
    case WorkloadKind::leak:
    case WorkloadKind::waiting:
      return 1.0;
    case WorkloadKind::training:
      return training_load(workload, gpu, elapsed);
    case WorkloadKind::bursty:
      return bursty_load(workload, gpu, elapsed);
    case WorkloadKind::starved:
      return starved_load(workload, gpu, elapsed);
    case WorkloadKind::idle:
    case WorkloadKind::mixed:
      break;
  }
  return 0.0;
}

double default_vram_share(WorkloadKind kind) {
  switch (kind) {
    case WorkloadKind::steady:
      return 0.5;
    case WorkloadKind::training:
    case WorkloadKind::starved:
    case WorkloadKind::waiting:
      return 0.9;
    case WorkloadKind::leak:
      return 0.1;
    case WorkloadKind::bursty:
      return 0.35;
    case WorkloadKind::idle:
    case WorkloadKind::mixed:
      break;
  }
  return 0.0;
}

std::uint64_t leaked(const Workload& workload, milliseconds elapsed) {
  if (workload.kind != WorkloadKind::leak || elapsed <= workload.since) return 0;
  const auto per_s =
      workload.leaked_bytes_per_s != 0 ? workload.leaked_bytes_per_s : kDefaultLeakBytesPerS;
  const auto ms = static_cast<double>((elapsed - workload.since).count());
  return static_cast<std::uint64_t>(std::min(1e18, static_cast<double>(per_s) / 1000.0 * ms));
}

bool has_period(WorkloadKind kind) {
  return kind == WorkloadKind::training || kind == WorkloadKind::bursty ||
         kind == WorkloadKind::starved;
}

Result<void> parse_detail(Workload& workload, std::string_view text) {
  if (workload.kind == WorkloadKind::leak) {
    const auto bytes = parse_bytes(text);
    if (!bytes || *bytes == 0) {
      return Error{
          Errc::invalid,
          fmt::format("\"{}\" is not an amount of memory to leak per second, such as 64M", text)};
    }
    workload.leaked_bytes_per_s = *bytes;
    return {};
  }
  if (!has_period(workload.kind)) {
    return Error{Errc::invalid,
                 fmt::format("\"{}\": {} takes no further values", text, name_of(workload.kind))};
  }
  const auto period = parse_time(text);
  if (!period) return period.error();
  if (*period < kMinPeriod) return Error{Errc::invalid, "a period must be 100ms or longer"};
  workload.period = *period;
  return {};
}

// In the order of Activity: graphics, SM, occupancy, integer, tensor, DRAM, FP64, FP32, FP16.
constexpr Activities kIdle{};
constexpr Activities kSteady{.parts = {1.0, 0.90, 0.50, 0.20, 0.10, 0.60, 0.30, 0.40, 0.05},
                             .pcie_tx = 0.02,
                             .pcie_rx = 0.03,
                             .nvlink = 0.05};
constexpr Activities kTraining{.parts = {1.0, 0.92, 0.45, 0.15, 0.55, 0.60, 0.00, 0.20, 0.30},
                               .pcie_tx = 0.05,
                               .pcie_rx = 0.10,
                               .nvlink = 0.45};
constexpr Activities kBursty{.parts = {1.0, 0.80, 0.30, 0.15, 0.35, 0.75, 0.00, 0.15, 0.25},
                             .decoder = 0.10,
                             .pcie_tx = 0.03,
                             .pcie_rx = 0.04,
                             .nvlink = 0.10};

constexpr Activities kWaiting{.parts = {1.0, 0.03, 0.02, 0.01, 0.00, 0.02, 0.00, 0.00, 0.00}};

}  // namespace

std::optional<double> parse_load(std::string_view text) {
  const auto load = parse_number<double>(text);
  return load && *load >= 0.0 && *load <= 1.0 ? load : std::nullopt;  // false for NaN
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  unsigned shift = 0;
  if (text.ends_with('K')) shift = 10;
  if (text.ends_with('M')) shift = 20;
  if (text.ends_with('G')) shift = 30;
  if (shift != 0) text.remove_suffix(1);
  const auto value = parse_number<std::uint64_t>(text);
  return value && *value <= (UINT64_MAX >> shift) ? std::optional(*value << shift) : std::nullopt;
}

WorkloadKind resolve_kind(const Workload& workload, std::uint32_t gpu) {
  return workload.kind == WorkloadKind::mixed ? part_of_mix(workload, gpu).kind : workload.kind;
}

Demand demand_at(const Workload& workload, std::uint32_t gpu, milliseconds elapsed,
                 std::uint64_t usable_vram_bytes) {
  if (workload.kind == WorkloadKind::mixed) {
    return demand_at(part_of_mix(workload, gpu), gpu, elapsed, usable_vram_bytes);
  }
  const auto usual = static_cast<std::uint64_t>(static_cast<double>(usable_vram_bytes) *
                                                default_vram_share(workload.kind));
  const std::uint64_t wanted = workload.vram_bytes != 0 ? workload.vram_bytes : usual;
  const std::uint64_t at_first = std::min(wanted, usable_vram_bytes);
  const double load = std::clamp(workload.load, 0.0, 1.0) * load_of(workload, gpu, elapsed);
  return {
      .load = load,
      .vram_bytes = at_first + std::min(usable_vram_bytes - at_first, leaked(workload, elapsed)),
      .effort = workload.kind == WorkloadKind::waiting ? load * kWaitingEffort : load};
}

std::string_view name_of(WorkloadKind kind) {
  return enum_name(kind);
}

Result<Workload> parse_workload(std::string_view text) {
  std::string_view rest = text;
  const auto kind = enum_from_name<WorkloadKind>(take_until(':', rest));
  if (!kind) {
    return Error{
        Errc::invalid,
        fmt::format("expected a workload: idle, steady, training, bursty, mixed, leak, starved or "
                    "waiting, with optional :LOAD (0 to 1) and :VRAM (such as 40G); got \"{}\"",
                    text)};
  }
  Workload workload{.kind = *kind};
  if (const auto part = take_until(':', rest); !part.empty()) {
    const auto load = parse_load(part);
    if (!load) return Error{Errc::invalid, fmt::format("load \"{}\" is not between 0 and 1", part)};
    workload.load = *load;
  }
  if (const auto part = take_until(':', rest); !part.empty()) {
    const auto vram = parse_bytes(part);
    if (!vram) return Error{Errc::invalid, fmt::format("\"{}\" is not an amount of memory", part)};
    workload.vram_bytes = *vram;
  }
  if (rest.empty()) return workload;
  if (auto done = parse_detail(workload, rest); !done) return std::move(done).error();
  return workload;
}

std::string to_string(const Workload& workload) {
  std::string text =
      fmt::format("{}:{}:{}", name_of(workload.kind), workload.load, workload.vram_bytes);
  if (workload.leaked_bytes_per_s != 0) text += fmt::format(":{}", workload.leaked_bytes_per_s);
  if (workload.period.count() != 0) text += fmt::format(":{}ms", workload.period.count());
  return text;
}

void Activities::add(const Activities& other, double share) {
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i] += other.parts[i] * share;
  encoder += other.encoder * share;
  decoder += other.decoder * share;
  pcie_tx += other.pcie_tx * share;
  pcie_rx += other.pcie_rx * share;
  nvlink += other.nvlink * share;
}

const Activities& activities_of(WorkloadKind kind) {
  switch (kind) {
    case WorkloadKind::steady:
    case WorkloadKind::leak:
      return kSteady;
    case WorkloadKind::training:
    case WorkloadKind::starved:
      return kTraining;
    case WorkloadKind::bursty:
      return kBursty;
    case WorkloadKind::waiting:
      return kWaiting;
    case WorkloadKind::idle:
    case WorkloadKind::mixed:
      break;
  }
  return kIdle;
}

}  // namespace gpuyard::sim
