// The layout of a world's shared file `state`. It has one writer, the world server, and no locks:
// two slots take turns, and `generation` says which one is complete. A client that dies or stops in
// the middle of a read harms no other process.
//
// Slots are copied word by word with acquire and release operations (plain moves on x86 and ARM64):
// a reader that sees one word of generation N+2 then also sees that N+1 was published before.
//
// Processes, setter calls and events have their own regions, written only when they change. A GPU
// keeps its place for the world's life. Its index, whether it is plugged in, and the driver's
// session are part of each generation; a client keeps the values from its initialisation. Faults (a
// code, a delay, a call that never returns) happen inside the client, as with a real driver.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

#include "sim/setting.h"
#include "sim/world_record.h"

namespace gpuyard::sim {

inline constexpr std::array<char, 8> kWorldMagic{'G', 'P', 'U', 'Y', 'S', 'I', 'M', '\0'};
inline constexpr std::uint32_t kLayoutVersion = 6;
inline constexpr const char* kStateFile = "state";

// Complete before the file gets its name; never changed afterwards.
struct WorldHeader {
  std::array<char, 8> magic{};
  std::uint32_t layout_version = 0;
  std::uint32_t gpu_count = 0;
  std::uint64_t file_size = 0;
  char boot_id[40] = {};
  std::int32_t server_pid = 0;  // as the world server's PID namespace sees it
  std::uint32_t reserved = 0;
  std::uint64_t padding[7] = {};
};
static_assert(sizeof(WorldHeader) == 128);

struct WorldSlot {
  std::uint64_t published_ns = 0;  // CLOCK_BOOTTIME
  DriverWords driver{};
  std::array<RecordWords, kMaxGpus> gpus{};  // by place
};

// All processes of all GPUs, sorted by GPU. Written only when the set changes, so that unused room
// costs a world nothing.
struct ProcessTable {
  std::array<std::uint64_t, kMaxGpus> ranges{};  // first << 32 | count
  std::array<ProcessWords, kMaxProcesses> entries{};
};

// The last N entries of a log: entry n (the first is 1) is entries[n % kSlots]. One slot more than
// N, because the writer may be overwriting one.
template <class T, std::size_t N>
struct WorldLog {
  static constexpr std::size_t kSlots = N + 1;
  using Words = std::array<std::uint64_t, sizeof(T) / sizeof(std::uint64_t)>;
  static_assert(sizeof(T) == sizeof(Words));

  std::uint64_t count = 0;  // of all entries ever; stored after the entry
  std::array<Words, kSlots> entries{};
};

inline constexpr std::size_t kMaxWrites = 16'384;
inline constexpr std::size_t kMaxEvents = 256;

struct WorldFile {
  WorldHeader header;
  std::uint64_t generation = 0;          // the complete slot is slots[generation & 1]
  std::uint64_t process_generation = 0;  // the complete table is processes[... & 1]
  std::uint64_t padding[6] = {};
  std::array<Identity, kMaxGpus> identities{};
  std::array<WorldSlot, 2> slots{};
  WorldLog<WriteRecord, kMaxWrites> writes;
  WorldLog<EventRecord, kMaxEvents> events;
  std::array<ProcessTable, 2> processes{};
};
static_assert(offsetof(WorldFile, generation) == 128);
static_assert(offsetof(WorldFile, identities) == 192);

// A world that was not published for this long counts as dead: its world server crashed or was
// stopped.
inline constexpr std::uint64_t kStaleAfterNs = 2'000'000'000;

inline std::uint64_t load_word(const std::uint64_t& word) {
  // atomic_ref cannot refer to const in C++20; a lock-free load does not write.
  return std::atomic_ref(const_cast<std::uint64_t&>(word)).load(std::memory_order_acquire);
}

inline void store_word(std::uint64_t& word, std::uint64_t value) {
  std::atomic_ref(word).store(value, std::memory_order_release);
}

std::uint64_t boot_time_ns();

// The kernel's boot id; "" if it cannot be read.
std::string current_boot_id();

// GPUYARD_SIM_WORLD, else $XDG_RUNTIME_DIR/gpuyard/sim, else /tmp/gpuyard-sim-<uid>.
std::string default_world_directory();

// The simulated libnvidia-ml.so.1 beside the running program: sim/ in a build tree, else
// ../lib/gpuyard/sim/ of an installation. If neither exists, returns the second.
std::string full_nvml_path();

// The library for the world in this directory: the world's own one that lacks functions, if there
// is one and only root or this user can write to it and to the directory; else the whole one.
std::string nvml_path_of(const std::string& directory);
std::string stripped_nvml_path(const std::string& directory);

// The link `nvidia-smi` in the world's directory: gpuyard, which under this name prints what
// nvidia-smi would print of the world.
std::string smi_link_path(const std::string& directory);

// The library for the default world.
std::string simulated_nvml_path();

}  // namespace gpuyard::sim
