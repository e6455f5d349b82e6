// A lease from the moment somebody asks for GPUs until it is over, as people and the disk know it.
// Plain values.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "device/device.h"
#include "lease/core.h"

namespace gpuyard::lease {

// What a lease lasts as long as.
enum class Binding : std::uint8_t {
  run,       // the command that `gpuyard run` started for it, and what that left behind
  process,   // the process that asked for it
  detached,  // a time, which can be renewed
};
BOOST_DESCRIBE_ENUM(Binding, run, process, detached)

enum class State : std::uint8_t {
  waiting,
  held,
  draining,  // given up, but its processes were not seen gone yet
  ended,
};
BOOST_DESCRIBE_ENUM(State, waiting, held, draining, ended)
inline bool has_gpus(State state) {
  return state == State::held || state == State::draining;
}

// Why it is over, or drains.
enum class Ending : std::uint8_t {
  released,     // by its holder
  exited,       // the process or the command is gone
  expired,      // its time was up, and nobody renewed it
  cancelled,    // while it waited
  gave_up,      // waited as long as it wanted to
  none_free,    // did not want to wait
  unreachable,  // while it waited: whoever asked did not come back
  forced,       // an administrator ended it
  node_reboot,
};
BOOST_DESCRIBE_ENUM(Ending, released, exited, expired, cancelled, gave_up, none_free, unreachable,
                    forced, node_reboot)

// A number and when it started: one process for ever, within a boot.
struct Process {
  std::uint32_t pid = 0;
  TimePoint started;  // exact to 10 ms

  friend auto operator<=>(const Process&, const Process&) = default;
};

// What somebody asks for. The same once more is the same call made again.
struct Wish {
  unsigned gpus = 1;
  std::int64_t min_free_bytes = 0;        // on each
  std::string model = {};                 // part of the GPU's name, in any case; "": any
  std::vector<DeviceId> among = {};       // only these; empty: all
  std::optional<Duration> longest = {};   // how long it says to hold them
  std::optional<Duration> patience = {};  // waits no longer; empty: for ever; zero: not at all
  Binding binding = Binding::process;
  Duration ttl = {};      // detached: without renewal
  std::string note = {};  // for people: the command, the purpose

  friend bool operator==(const Wish&, const Wish&) = default;
};

struct Lease {
  std::string id;         // chosen by who asks, or by us
  std::uint32_t uid = 0;  // whose it is
  Wish wish;
  State state = State::waiting;
  Ticket ticket = 0;
  Fence fence = 0;  // from the grant on
  unsigned passed = 0;
  bool overdue = false;
  std::vector<DeviceId> gpus = {};  // by the grant; kept when it is over
  // What it is bound to, the one who asked first; then what else was seen of it and may be left.
  std::vector<Process> processes = {};
  std::string boot_id = {};  // of the times below
  TimePoint asked = {};
  TimePoint granted = {};
  std::optional<TimePoint> until = {};  // detached: when it ends
  WallTime asked_wall = {};
  std::optional<WallTime> granted_wall = {};
  std::optional<WallTime> let_go_wall = {};  // when it began to drain
  std::optional<WallTime> ended_wall = {};
  std::optional<Ending> ending = {};
  std::string why = {};  // an administrator's reason; or why it still drains

  friend bool operator==(const Lease&, const Lease&) = default;
};

// Detached leases.
inline constexpr Duration kLongestTtl = std::chrono::hours(24 * 7);
inline constexpr Duration kShortestTtl = std::chrono::seconds(10);
// From its grant on, however often it is renewed.
inline constexpr Duration kLongestDetached = std::chrono::hours(24 * 30);

// Whose a setting is that ends with a lease, and back; "" for other owners.
inline constexpr std::string_view kOwnerPrefix = "lease:";
std::string owner_of(std::string_view lease);
std::string_view lease_of(std::string_view owner);

// Why a wish makes no sense whatever GPUs there are.
Result<void> check(const Wish&);
Error no_such_lease(std::string_view id);
// A name of a lease, its id or the beginning of it: 1 to 64 letters, digits, '-' and '_', and no
// '-' or '_' first, so that it is no option.
Result<void> check_name(std::string_view name);
// An id that somebody chooses: long enough not to be the short name of another's.
Result<void> check_id(std::string_view id);
inline constexpr std::size_t kShortestId = 16;
inline constexpr std::size_t kLongestId = 64;

}  // namespace gpuyard::lease
