// The protocol of a world server's socket: one Command datagram, one Reply datagram, fixed size,
// plain data. Fixed structs rather than text, because the simulated NVML uses it inside foreign
// programs.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "base/result.h"
#include "base/unique_fd.h"
#include "sim/fault.h"
#include "sim/setting.h"
#include "sim/workload.h"
#include "sim/world_record.h"

namespace gpuyard::sim {

inline constexpr const char* kWorldSocket = "keeper.sock";
inline constexpr std::uint32_t kCommandVersion = 7;

enum class Verb : std::uint32_t {
  stop = 1,
  inject = 2,
  set_load = 3,
  clear_faults = 4,
  set = 5,            // one of NVML's setters; any user may send it, the world server decides
  attach = 6,         // a real process
  set_synthetic = 7,  // how many synthetic processes
  add_ecc_errors = 8,
  raise_event = 9,
  reset = 10,     // of a GPU: pending changes take effect; `count` 1: as a driver would do it
  set_heat = 11,  // degrees C in `load`
  set_memory_heat = 12,
  unload_driver = 13,
  load_driver = 14,    // its new version in `text`, if it changes
  reload_driver = 15,  // the same; seconds without a driver in `load`
  unplug = 16,
  plug = 17,  // the UUID in `text`; the index in `gpu`, or kEveryGpu where it does not matter
  step = 18,  // `count` steps, in a stepped world
};

struct Command {
  std::uint32_t version = kCommandVersion;
  Verb verb{};
  std::uint32_t gpu = 0;                 // its index; set: its place
  WorkloadKind workload_kind{};          // set_load
  double load = 0;                       // set_load
  std::uint64_t vram_bytes = 0;          // set_load
  std::uint64_t period_ms = 0;           // set_load
  std::uint64_t leaked_bytes_per_s = 0;  // set_load
  Fault fault = {};                      // inject
  SettingWrite write = {};               // set; its GPU is the one above
  ProcessRecord process = {};            // attach; set_synthetic: the demand of each
  std::uint64_t count = 0;               // set_synthetic, add_ecc_errors; raise_event: the Xid
  EccLocation location{};                // add_ecc_errors
  std::uint32_t uncorrected = 0;         // add_ecc_errors: 1 for double-bit errors
  char text[64] = {};                    // load_driver, reload_driver, plug
};
static_assert(std::is_trivially_copyable_v<Command>);

struct Reply {
  std::uint32_t failed = 0;
  std::uint32_t errc = 0;      // Errc, when failed
  std::int32_t nvml_code = 0;  // set: the return code of NVML's setter
  char message[244] = {};
};
static_assert(sizeof(Reply) == 256);

// The addresses of world servers' sockets, for directories with a path of any length. A Unix
// address holds 107 bytes and a directory's path may be longer, so the address goes through an open
// descriptor of the directory: /proc/self/fd/<n>/keeper.sock. The address is valid only while this
// object lives.
class WorldSocketAddress {
 public:
  static Result<WorldSocketAddress> create(const std::string& directory);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t size() const { return sizeof address_; }
  const char* path() const { return address_.sun_path; }

 private:
  explicit WorldSocketAddress(UniqueFd directory);

  UniqueFd directory_;
  sockaddr_un address_{};
};

}  // namespace gpuyard::sim
