// A lease from the claim until it has ended, as people and the disk know it. Plain values.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "base/proc_stat.h"
#include "base/result.h"
#include "core/lease/allocator.h"
#include "core/lease/scheduler.h"
#include "gpu/device/device.h"

namespace gpuyard::lease {

// The lifetime of a lease.
enum class Binding : std::uint8_t {
  run,       // as long as the command of `gpuyard run` and its leftover
  process,   // as long as the process that claimed it
  detached,  // for a time, which can be renewed
  job,       // as long as a job of an external allocator, which has allocated the GPUs itself
};
BOOST_DESCRIBE_ENUM(Binding, run, process, detached, job)

enum class LeaseState : std::uint8_t {
  waiting,
  held,
  draining,  // released, but its processes were not seen gone yet
  ended,
};
BOOST_DESCRIBE_ENUM(LeaseState, waiting, held, draining, ended)
inline bool has_gpus(LeaseState state) {
  return state == LeaseState::held || state == LeaseState::draining;
}

// The reason why a lease has ended, or drains.
enum class EndReason : std::uint8_t {
  released,     // by its holder
  exited,       // the process or the command is gone
  expired,      // its time has passed without a renewal
  cancelled,    // while it waited
  gave_up,      // its wait timeout has passed
  none_free,    // no GPU was free, and it was not to wait
  unreachable,  // its client did not come back
  forced,       // an administrator ended it
  node_reboot,
  taken_over,  // its allocator gave a GPU of it to another job
};
BOOST_DESCRIBE_ENUM(EndReason, released, exited, expired, cancelled, gave_up, none_free,
                    unreachable, forced, node_reboot, taken_over)

// A pid and when it started, which name one process, within a boot.
struct ProcessKey {
  std::uint32_t pid = 0;
  TimePoint started;  // exact to 10 ms

  friend auto operator<=>(const ProcessKey&, const ProcessKey&) = default;
};

// The request of a claim, verbatim. The same spec under the same id is the same call repeated.
struct LeaseSpec {
  unsigned gpus = 1;
  std::int64_t min_free_bytes = 0;             // on each
  std::string model = {};                      // part of the GPU's name, in any case; "": any
  std::vector<DeviceId> allowed_gpus = {};     // only these; empty: all
  std::optional<Duration> max_hold_time = {};  // how long it says to hold the GPUs
  // The longest wait; empty: without limit; zero: no wait.
  std::optional<Duration> wait_timeout = {};
  Binding binding = Binding::process;
  Duration ttl = {};      // detached: how long it lasts without renewal
  std::string note = {};  // for people: the command, the purpose

  friend bool operator==(const LeaseSpec&, const LeaseSpec&) = default;
};

// The part of a lease that everybody may see.
struct LeaseStatus {
  std::string id = {};    // chosen by the caller, or by the daemon
  std::uint32_t uid = 0;  // of its user
  LeaseState state = LeaseState::waiting;
  Fence fence = 0;  // set by the grant
  bool overdue = false;
  WallTime requested_wall = {};
  std::optional<WallTime> granted_wall = {};
  std::optional<WallTime> ended_wall = {};
  std::optional<EndReason> end_reason = {};
  // An administrator's reason, why it still drains, or which processes its adoption left out.
  std::string detail = {};
  std::string pod = {};  // "default/trainer-0", of a pod's lease; "" of all others

  friend bool operator==(const LeaseStatus&, const LeaseStatus&) = default;
};

struct Lease : LeaseStatus {
  LeaseSpec spec;
  Ticket ticket = 0;
  unsigned overtakes = 0;
  std::vector<DeviceId> gpus = {};  // set by the grant; kept after the end
  // The processes it is bound to, the one that claimed it first; then others seen of it that may be
  // left.
  std::vector<ProcessKey> processes = {};
  std::string boot_id = {};  // the boot in which the times below were taken
  TimePoint requested_at = {};
  TimePoint granted_at = {};
  std::optional<TimePoint> expires_at = {};         // detached: when it ends
  std::optional<WallTime> drain_started_wall = {};  // when it began to drain

  friend bool operator==(const Lease&, const Lease&) = default;
};

// A job on this machine whose GPUs an external allocator, such as Slurm, has allocated. The id of
// its lease says when it began. No client can choose the id of a job of Slurm: the name, '-' and
// the time. A pod's name may not fit into an id, so the id has only a part of it.
struct ExternalJob {
  std::string name;       // "slurm-4711", "default/trainer-0"
  std::uint32_t uid = 0;  // of its user
  std::vector<DeviceId> gpus = {};
  std::string note = {};
  Allocator allocator = Allocator::slurm;
};

// The owner of pods' leases: the uid that no user can have. A pod is no user of the machine.
inline constexpr std::uint32_t kPodsUid = UINT32_MAX;

inline constexpr std::string_view kSlurmJobPrefix = "slurm-";
// Returns the name of a job of Slurm by its number, which has digits only. Errc::not_found.
Result<std::string> make_slurm_job_name(std::string_view number);
// Returns "NAMESPACE/NAME". Errc::invalid: too long, or with a character that Kubernetes refuses.
Result<std::string> make_pod_job_name(std::string_view pod_namespace, std::string_view pod);
// Returns what the id of a lease of this job begins with.
std::string job_id_prefix(std::string_view name);
// Returns the name of the job that a lease is of; "" for other leases.
std::string_view job_of(const Lease&);
// REQUIRES: the lease is of a job.
Allocator allocator_of(const Lease&);

// Detached leases.
inline constexpr Duration kMaxTtl = std::chrono::hours(24 * 7);
inline constexpr Duration kMinTtl = std::chrono::seconds(10);
// The longest time of a detached lease from its grant on, however often it is renewed.
inline constexpr Duration kMaxDetachedTime = std::chrono::hours(24 * 30);

// Convert between a lease and the owner of its settings; "" for other owners.
inline constexpr std::string_view kOwnerPrefix = "lease:";
std::string owner_of(std::string_view lease);
std::string_view lease_of(std::string_view owner);

// Returns Errc::invalid for a spec that is wrong for any GPUs.
Result<void> check_spec(const LeaseSpec&);
Error unknown_lease_error(std::string_view id);
Error not_held_error(const Lease&);

constexpr double to_gib(std::int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

// Checks a name of a lease, which is its id or the beginning of it: 1 to 64 letters, digits, '-'
// and '_'. It does not begin with '-' or '_', so that it cannot be an option.
Result<void> check_name(std::string_view name);
// Checks an id chosen by a caller: it must be too long to be mistaken for the short name of a
// lease.
Result<void> check_id(std::string_view id);
inline constexpr std::size_t kMinIdLength = 16;
inline constexpr std::size_t kMaxIdLength = 64;

}  // namespace gpuyard::lease
