// A process that uses a simulated GPU, as the shared file carries it. Plain data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace gpuyard::sim {

// On all GPUs of a world together.
inline constexpr std::uint32_t kMaxProcesses = 16'384;

enum class ProcessKind : std::uint32_t { compute, graphics };

struct ProcessRecord {
  std::uint32_t pid = 0;  // as the keeper's PID namespace sees it; above kLastRealPid: synthetic
  ProcessKind kind = ProcessKind::compute;
  std::uint64_t memory_bytes = 0;
  std::uint64_t start_time = 0;  // clock ticks since boot, as /proc/<pid>/stat has it; 0: synthetic
  std::uint64_t since_ns = 0;    // CLOCK_BOOTTIME at which it came to this GPU
  // Shares of the GPU's time that it asks for. WorldReader::processes() turns them into percent of
  // what the GPU can give.
  std::uint32_t load_permille = 0;
  std::uint32_t memory_load_permille = 0;
  std::uint32_t encoder_permille = 0;
  std::uint32_t decoder_permille = 0;
};
static_assert(sizeof(ProcessRecord) == 48);

// The kernel gives no pid above this (PID_MAX_LIMIT).
inline constexpr std::uint32_t kLastRealPid = 4'194'304;

using ProcessWords = std::array<std::uint64_t, sizeof(ProcessRecord) / sizeof(std::uint64_t)>;

// A process on one GPU at one moment, in NVML's units.
struct ProcessUse {
  std::uint32_t pid = 0;
  ProcessKind kind = ProcessKind::compute;
  std::uint64_t memory_bytes = 0;
  std::uint64_t start_time = 0;
  std::uint64_t since_ns = 0;
  std::uint32_t sm_percent = 0;
  std::uint32_t memory_percent = 0;
  std::uint32_t encoder_percent = 0;
  std::uint32_t decoder_percent = 0;
};

}  // namespace gpuyard::sim
