// What a simulated GPU is asked to do. A workload is a pure function of time and GPU index, so the
// same fleet lives the same life in every run.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gpuyard::sim {

enum class WorkloadKind : std::uint32_t {
  idle,
  steady,    // constant load
  training,  // nearly full load, short waits for data, regular checkpoints
  bursty,    // requests come and go, as in serving
  mixed,     // one of the others, chosen by the GPU's index
};

struct Workload {
  WorkloadKind kind = WorkloadKind::idle;
  double load = 1.0;             // 0 to 1: the height of what the kind does
  std::uint64_t vram_bytes = 0;  // 0: a typical share of the GPU's memory

  friend bool operator==(const Workload&, const Workload&) = default;
};

// What a workload asks of its GPU at one moment.
struct Demand {
  double load = 0.0;
  std::uint64_t vram_bytes = 0;
};

// The kind that the GPU of this index does: a mix is resolved to its part.
WorkloadKind kind_on(const Workload&, std::uint32_t gpu);

Demand demand_at(const Workload&, std::uint32_t gpu, std::chrono::milliseconds elapsed,
                 std::uint64_t usable_vram_bytes);

std::string_view name_of(WorkloadKind);

// "mixed", "idle", "training", "steady:0.8", "steady:0.8:40G": kind[:load[:vram]], where vram takes
// K, M, G (powers of 1024). Errc::invalid says what is wrong.
Result<Workload> parse_workload(std::string_view);

// "0.8": from 0 to 1. "10G": with K, M, G as powers of 1024.
std::optional<double> parse_load(std::string_view);
std::optional<std::uint64_t> parse_bytes(std::string_view);

std::string to_string(const Workload&);

}  // namespace gpuyard::sim
