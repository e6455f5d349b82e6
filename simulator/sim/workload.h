// The work that a simulated GPU is given. A workload is a pure function of time and GPU index, so
// the same fleet behaves the same in every run.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <boost/describe/enum.hpp>

#include "base/result.h"
#include "sim/world_record.h"

namespace gpuyard::sim {

enum class WorkloadKind : std::uint32_t {
  idle,
  steady,    // constant load
  training,  // nearly full load, short waits for data, regular checkpoints
  bursty,    // requests come and go, as in serving
  mixed,     // one of the above, chosen by the GPU's index
  leak,      // steady, and takes more memory each second until none is left
  starved,   // waits for its input most of the time: short bursts, memory full
  waiting,   // its kernels wait for a partner: always busy, at little power
};
BOOST_DESCRIBE_ENUM(WorkloadKind, idle, steady, training, bursty, mixed, leak, starved, waiting)

struct Workload {
  WorkloadKind kind = WorkloadKind::idle;
  double load = 1.0;             // 0 to 1: scales the load of the kind
  std::uint64_t vram_bytes = 0;  // 0: a typical share of the GPU's memory; leak: the initial use
  // Time from one training checkpoint, served request or batch to the next. 0: the kind's default.
  std::chrono::milliseconds period{0};
  std::uint64_t leaked_bytes_per_s = 0;  // leak: bytes; 0: kDefaultLeakBytesPerS
  std::chrono::milliseconds since{0};    // when it began, in the world's time

  friend bool operator==(const Workload&, const Workload&) = default;
};

// A workload's demand on its GPU at one moment.
struct Demand {
  double load = 0.0;
  std::uint64_t vram_bytes = 0;
  double effort = 0.0;  // the load by the power that it costs
};

// Returns the kind that runs on the GPU of this index: resolves `mixed`.
WorkloadKind resolve_kind(const Workload&, std::uint32_t gpu);

Demand demand_at(const Workload&, std::uint32_t gpu, std::chrono::milliseconds elapsed,
                 std::uint64_t usable_vram_bytes);

std::string_view name_of(WorkloadKind);

inline constexpr std::uint64_t kDefaultLeakBytesPerS = std::uint64_t{16} << 20;

// "mixed", "steady:0.8", "steady:0.8:40G", "training:0.9:40G:30s", "leak:0.6:10G:64M":
// kind[:load[:vram[:detail]]], where vram takes K, M, G (powers of 1024) and the detail is a period
// or the bytes leaked per second. Errc::invalid says what is wrong.
Result<Workload> parse_workload(std::string_view);

// Read "0.8", from 0 to 1, and "10G", with K, M, G as powers of 1024.
std::optional<double> parse_load(std::string_view);
std::optional<std::uint64_t> parse_bytes(std::string_view);

std::string to_string(const Workload&);

// Shares of the GPU's capacity, 0 to 1.
struct Activities {
  std::array<double, kActivities> parts{};  // by Activity
  double encoder = 0;
  double decoder = 0;
  double pcie_tx = 0;
  double pcie_rx = 0;
  double nvlink = 0;

  double of(Activity part) const { return parts[static_cast<std::size_t>(part)]; }
  // Adds `share` times `other`.
  void add(const Activities& other, double share);
};

// The activities at full load. Not for `mixed`: pass the result of resolve_kind().
const Activities& activities_of(WorkloadKind);

}  // namespace gpuyard::sim
