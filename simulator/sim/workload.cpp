#include "sim/workload.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include <fmt/format.h>

namespace gpuyard::sim {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr std::array<std::string_view, 5> kKindNames{"idle", "steady", "training", "bursty",
                                                     "mixed"};

constexpr milliseconds kCheckpointEvery = 60s;
constexpr milliseconds kCheckpointTakes = 4s;
constexpr milliseconds kBatchTakes = 1500ms;
constexpr milliseconds kDataWait = 120ms;
constexpr milliseconds kBurstWindow = 500ms;

// Neighbours in a training job would otherwise all checkpoint in the same millisecond.
milliseconds phase_of(std::uint32_t gpu) {
  return milliseconds(gpu * 370);
}

double training_load(std::uint32_t gpu, milliseconds elapsed) {
  const milliseconds now = elapsed + phase_of(gpu);
  if (now % kCheckpointEvery >= kCheckpointEvery - kCheckpointTakes) return 0.05;
  return now % kBatchTakes >= kBatchTakes - kDataWait ? 0.45 : 0.97;
}

std::uint64_t scrambled(std::uint64_t value) {  // the finaliser of splitmix64
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31);
}

double bursty_load(std::uint32_t gpu, milliseconds elapsed) {
  const auto window = static_cast<std::uint64_t>(elapsed / kBurstWindow);
  const std::uint64_t dice = scrambled(window * 1021 + gpu + 1) % 100;
  if (dice < 35) return 0.0;
  return static_cast<double>(dice) / 100.0;
}

// What a GPU of a mixed fleet does. A height or memory asked of the mix holds for its parts.
Workload part_of_mix(const Workload& mix, std::uint32_t gpu) {
  constexpr std::array kinds{WorkloadKind::training, WorkloadKind::training, WorkloadKind::bursty,
                             WorkloadKind::idle,     WorkloadKind::steady,   WorkloadKind::training,
                             WorkloadKind::bursty,   WorkloadKind::idle};
  const WorkloadKind kind = kinds[gpu % kinds.size()];
  return {.kind = kind,
          .load = mix.load * (kind == WorkloadKind::steady ? 0.6 : 1.0),
          .vram_bytes = kind == WorkloadKind::idle ? 0 : mix.vram_bytes};
}

double load_of(WorkloadKind kind, std::uint32_t gpu, milliseconds elapsed) {
  switch (kind) {
    case WorkloadKind::steady:
      return 1.0;
    case WorkloadKind::training:
      return training_load(gpu, elapsed);
    case WorkloadKind::bursty:
      return bursty_load(gpu, elapsed);
    case WorkloadKind::idle:
    case WorkloadKind::mixed:
      break;
  }
  return 0.0;
}

double usual_vram_share(WorkloadKind kind) {
  switch (kind) {
    case WorkloadKind::steady:
      return 0.5;
    case WorkloadKind::training:
      return 0.9;
    case WorkloadKind::bursty:
      return 0.35;
    case WorkloadKind::idle:
    case WorkloadKind::mixed:
      break;
  }
  return 0.0;
}

std::optional<WorkloadKind> kind_from_name(std::string_view name) {
  const auto found = std::ranges::find(kKindNames, name);
  if (found == kKindNames.end()) return std::nullopt;
  return static_cast<WorkloadKind>(found - kKindNames.begin());
}

// The text before the next ':'; `rest` continues after it.
std::string_view next_part(std::string_view& rest) {
  const std::size_t colon = rest.find(':');
  const std::string_view part = rest.substr(0, colon);
  rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
  return part;
}

}  // namespace

std::optional<double> parse_load(std::string_view text) {
  double load = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), load);
  if (failed != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (!(load >= 0.0 && load <= 1.0)) return std::nullopt;  // also NaN
  return load;
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  unsigned shift = 0;
  if (text.ends_with('K')) shift = 10;
  if (text.ends_with('M')) shift = 20;
  if (text.ends_with('G')) shift = 30;
  if (shift != 0) text.remove_suffix(1);
  std::uint64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (value > (UINT64_MAX >> shift)) return std::nullopt;
  return value << shift;
}

WorkloadKind kind_on(const Workload& workload, std::uint32_t gpu) {
  return workload.kind == WorkloadKind::mixed ? part_of_mix(workload, gpu).kind : workload.kind;
}

Demand demand_at(const Workload& workload, std::uint32_t gpu, milliseconds elapsed,
                 std::uint64_t usable_vram_bytes) {
  if (workload.kind == WorkloadKind::mixed) {
    return demand_at(part_of_mix(workload, gpu), gpu, elapsed, usable_vram_bytes);
  }
  const auto usual = static_cast<std::uint64_t>(static_cast<double>(usable_vram_bytes) *
                                                usual_vram_share(workload.kind));
  const std::uint64_t wanted = workload.vram_bytes != 0 ? workload.vram_bytes : usual;
  return {.load = std::clamp(workload.load, 0.0, 1.0) * load_of(workload.kind, gpu, elapsed),
          .vram_bytes = std::min(wanted, usable_vram_bytes)};
}

std::string_view name_of(WorkloadKind kind) {
  const auto index = static_cast<std::size_t>(kind);
  return index < kKindNames.size() ? kKindNames[index] : "unknown";
}

Result<Workload> parse_workload(std::string_view text) {
  std::string_view rest = text;
  const auto kind = kind_from_name(next_part(rest));
  if (!kind) {
    return Error{Errc::invalid,
                 fmt::format("\"{}\" is not a workload: idle, steady, training, bursty or mixed, "
                             "then :load (0 to 1) and :vram (such as 40G)",
                             text)};
  }
  Workload workload{.kind = *kind};
  if (const auto part = next_part(rest); !part.empty()) {
    const auto load = parse_load(part);
    if (!load) return Error{Errc::invalid, fmt::format("load \"{}\" is not from 0 to 1", part)};
    workload.load = *load;
  }
  if (rest.empty()) return workload;
  const auto vram = parse_bytes(rest);
  if (!vram) return Error{Errc::invalid, fmt::format("\"{}\" is not an amount of memory", rest)};
  workload.vram_bytes = *vram;
  return workload;
}

std::string to_string(const Workload& workload) {
  return fmt::format("{}:{}:{}", name_of(workload.kind), workload.load, workload.vram_bytes);
}

}  // namespace gpuyard::sim
