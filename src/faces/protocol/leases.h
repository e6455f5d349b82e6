// Leases over REST: the holders of GPUs, the waiting claims, and the use under leases.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_shape.h"
#include "base/record.h"
#include "base/result.h"
#include "core/lease/lease.h"
#include "core/usage/usage_accumulator.h"
#include "core/usage/usage_recorder.h"
#include "core/usage/usage_storage.h"
#include "faces/protocol/answer.h"
#include "faces/protocol/bounds.h"
#include "faces/protocol/energy.h"
#include "faces/protocol/route.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::usage {

BOOST_DESCRIBE_STRUCT(LeaseUsage, (),
                      (held, energy_mj, estimated, mean_utilization_percent, peak_bytes, idle,
                       unknown, settled))
GPUYARD_ABOUT(LeaseUsage, json::keyed("held", "held_s", json::Unit::seconds),
              json::keyed("estimated", "energy_estimated"),
              json::keyed("peak_bytes", "peak_memory_bytes"),
              json::keyed("idle", "idle_s", json::Unit::seconds),
              json::keyed("unknown", "energy_unknown_s", json::Unit::seconds))

}  // namespace gpuyard::usage

namespace gpuyard::protocol {

using usage::LeaseUsage;

inline constexpr Duration kDefaultAnswerTimeout = std::chrono::seconds(30);
inline constexpr Duration kMaxAnswerTimeout = std::chrono::seconds(60);

struct LeaseName {
  std::string lease;
};
BOOST_DESCRIBE_STRUCT(LeaseName, (), (lease))

// A claim. A second claim with the same id is the same call, and answered with the present state.
struct LeaseRequest {
  std::optional<std::string> id;               // chosen by the caller; null: a new one
  std::optional<std::int64_t> gpus;            // 1 by default
  std::optional<std::int64_t> min_free_bytes;  // on each
  std::optional<std::string> model;            // part of the GPU's name
  std::optional<std::vector<GpuName>> among;   // indexes, UUIDs or PCI addresses
  std::optional<double> max_time_s;            // how long the caller expects to hold it
  std::optional<double> wait_s;                // 0: do not wait; null: wait without limit
  std::optional<std::string> binding;          // "process", "run" or "detached"
  std::optional<double> ttl_s;                 // for detached leases
  std::optional<std::string> note;             // for people
  std::optional<double> answer_within_s;       // 30 by default; after it, retry with the id
  std::optional<bool> stream;                  // answer with events
};
BOOST_DESCRIBE_STRUCT(LeaseRequest, (),
                      (id, gpus, min_free_bytes, model, among, max_time_s, wait_s, binding, ttl_s,
                       note, answer_within_s, stream))
GPUYARD_ABOUT(
    LeaseRequest,
    {"id",
     "ID chosen by the caller, 16 to 64 letters, digits, '-' and '_', starting with a letter or "
     "digit; repeating a claim with the same ID returns the same claim. Omitted: a new ID.",
     lease::kMinIdLength, lease::kMaxIdLength},
    {"gpus", "Number of GPUs, granted all at once or not at all. Default 1.", 1, lease::kMaxGpus},
    {"min_free_bytes", "Free memory required on each GPU.", 0, kMaxExactInteger},
    {"model", "Text that the GPU name must contain, in any case; at most 64 bytes.", 0,
     kMaxModelBytes},
    {"among", "Only these GPUs: indexes, UUIDs or PCI addresses.", 1, kMaxGpuNames},
    {"max_time_s",
     "Longest time the caller expects to hold the GPUs. A claim with this time may start early if "
     "that delays no other claim.",
     kMinSeconds, kMaxSeconds},
    {"wait_s", "How long to wait; 0: not at all; null: no limit.", 0, kMaxSeconds},
    {"binding",
     "What the lease is bound to: `process`: the caller's process (default); `run`: the command "
     "added to it; `detached`: a renewable time.",
     0, kMaxWordBytes},
    {"ttl_s", "Duration of a detached lease unless renewed, 10 seconds to 7 days.",
     to_seconds(lease::kMinTtl), to_seconds(lease::kMaxTtl)},
    {"note",
     "Note, e.g. the command or purpose; at most 200 bytes. Visible only to its user and "
     "administrators.",
     0, kMaxNoteBytes},
    {"answer_within_s",
     "Respond within this many seconds with the current state; up to 60, default 30. Repeat the "
     "request with the same ID to keep waiting.",
     0, to_seconds(kMaxAnswerTimeout)},
    {"stream",
     "Respond with server-sent events `lease` at each change, including the queue position."})

struct LeasedGpu {
  std::optional<std::uint32_t> index;  // none: the GPU is not there now
  std::string uuid;
  std::string pci_address;
  std::string name;
  std::optional<std::int64_t> utilization_percent;  // now
  std::optional<std::int64_t> memory_used_bytes;
};
BOOST_DESCRIBE_STRUCT(LeasedGpu, (),
                      (index, uuid, pci_address, name, utilization_percent, memory_used_bytes))

// The queue position of a waiting claim.
struct QueuePosition {
  std::int64_t position = 0;         // 1 is next, among claims for the same GPUs
  std::string why;                   // "busy", "behind_earlier", "quota", ...
  std::string text;                  // the same as a sentence
  std::optional<double> expected_s;  // from now, if all holders keep their max_time_s
};
BOOST_DESCRIBE_STRUCT(QueuePosition, (), (position, why, text, expected_s))
GPUYARD_ABOUT(
    QueuePosition, {"position", "Position among claims for the same GPUs; 1 is next."},
    {"expected_s",
     "Expected wait from now, if all holders keep to their announced times; null: unknown."})

struct Lease : lease::LeaseStatus {
  lease::Binding binding{};
  std::optional<std::string> user;
  std::optional<std::uint32_t> pid;  // the process it is bound to
  std::string note;
  std::int64_t wanted_gpus = 1;
  std::vector<LeasedGpu> gpus;
  std::optional<WallTime> until;       // when it ends, or is expected to
  std::optional<QueuePosition> place;  // while it waits
  std::optional<LeaseUsage> use;       // from the grant on
};
BOOST_DESCRIBE_STRUCT(Lease, (),
                      (id, state, binding, uid, user, pod, pid, note, wanted_gpus, fence, gpus,
                       requested_wall, granted_wall, until, ended_wall, end_reason, detail, overdue,
                       place, use))
GPUYARD_ABOUT(
    Lease, {"uid", "Owner of the lease; 4294967295: a pod, which has no user."},
    {"user", "Name of that user; null if unknown."},
    json::keyed("pod", "pod", json::Unit::null_if_empty,
                "Pod whose lease it is, as namespace/name; null: not a pod's."),
    {"pid", "Process it is bound to. Only over the Unix sockets."},
    {"note",
     "Note of its user; shown to this user and to administrators, over the Unix sockets; otherwise "
     "empty."},
    json::keyed(
        "fence", "fence", json::Unit::null_if_empty,
        "Rises with every grant on this machine. A change with the fence of another grant is "
        "refused."),
    json::keyed("requested_wall", "asked"), json::keyed("granted_wall", "granted"),
    json::keyed("ended_wall", "ended"), json::keyed("end_reason", "ending"),
    json::keyed("detail", "why"),
    {"until", "When a detached lease expires, or until when its holder expects to need it."})

// The answer with one lease. The route says what was requested of it.
struct LeaseAnswer : AnswerHead {
  Lease lease;
};
BOOST_DESCRIBE_STRUCT(LeaseAnswer, (AnswerHead), (lease))

struct Leases : AnswerHead {
  std::vector<Lease> leases;  // held and draining, oldest first
};
BOOST_DESCRIBE_STRUCT(Leases, (AnswerHead), (leases))

// An unleased process on a GPU, and what to do about it.
struct UnleasedProcess {
  std::uint32_t pid = 0;
  std::uint32_t index = 0;
  std::string uuid;
  std::uint32_t uid = 0;
  std::optional<std::string> user;
  std::string command;
  std::optional<std::int64_t> memory_bytes;
  std::optional<double> age_s;
  std::string resolve;  // command, see below
};
BOOST_DESCRIBE_STRUCT(UnleasedProcess, (),
                      (pid, index, uuid, uid, user, command, memory_bytes, age_s, resolve))
GPUYARD_ABOUT(
    UnleasedProcess,
    {"resolve",
     "Command that gives the process a lease, or ends it where an allocator has the GPUs."})

// A GPU that is withheld now, and why.
struct WithheldGpu {
  std::uint32_t index = 0;
  std::string uuid;
  // "cordoned", "lost", "mig_enabled", "new", "squatted", "unknown", "unknown_process", "in_use",
  // "observed", "unresponsive", "unhealthy", "quarantined"
  std::string why;
  std::string text;
  std::optional<std::string> by;
  std::optional<std::string> since;
};
BOOST_DESCRIBE_STRUCT(WithheldGpu, (), (index, uuid, why, text, by, since))

struct Queue : AnswerHead {
  std::int64_t pending_claimers = 0;
  std::vector<Lease> waiting;  // in order; the first 1000
  std::vector<UnleasedProcess> squatters;
  std::vector<WithheldGpu> withheld;
  std::vector<std::string> notes;  // problems that need attention
};
BOOST_DESCRIBE_STRUCT(Queue, (AnswerHead), (pending_claimers, waiting, squatters, withheld, notes))

// The parameters of a DELETE.
struct ReleaseQuery : LeaseName {
  std::optional<std::uint64_t> fence;  // refused if this is another grant's
  std::optional<bool> force;           // also another user's, or one that does not drain; admins
  std::optional<std::string> reason;   // of force
  std::optional<std::string> signal;   // to processes that still run: "TERM", "KILL", "INT", "HUP"
};
BOOST_DESCRIBE_STRUCT(ReleaseQuery, (LeaseName), (fence, force, reason, signal))
GPUYARD_ABOUT(ReleaseQuery,
              {"fence", "Fence of the lease; refused if it is from another grant.", 0,
               kMaxExactInteger},
              {"force",
               "Also releases another user's lease, or one that does not drain. Requires a reason "
               "and an administrator."},
              {"reason", "Reason for forcing; at most 200 bytes.", 0, kMaxNoteBytes},
              {"signal",
               "Signal for processes still running under the lease: TERM, INT, HUP or KILL."})

// A process of a released lease that runs and did not get its signal.
struct UnsignalledProcess {
  std::uint32_t pid = 0;
  std::int64_t started_after_boot_ms = 0;
  std::string why;
};
BOOST_DESCRIBE_STRUCT(UnsignalledProcess, (), (pid, started_after_boot_ms, why))
GPUYARD_ABOUT(UnsignalledProcess,
              {"started_after_boot_ms",
               "Start of the process, exact to 10 ms. With the PID it identifies one process: a "
               "caller opens a pidfd, compares this with /proc/PID/stat, and then signals."})

// The part of a signal that is left to the caller: the daemon may not signal the processes of
// another user without CAP_KILL.
struct UnsignalledProcesses {
  std::string lease;
  std::string signal;
  std::string boot_id;
  std::string pid_namespace;
  std::vector<UnsignalledProcess> processes;  // at most kMaxUnsignalled
  std::uint64_t left_out = 0;
  std::string why;  // of all of them
};
BOOST_DESCRIBE_STRUCT(UnsignalledProcesses, (),
                      (lease, signal, boot_id, pid_namespace, processes, left_out, why))
GPUYARD_ABOUT(UnsignalledProcesses,
              {"lease", "ID of the lease that these processes name in their environment."},
              {"signal", "Name of the signal, such as TERM."},
              {"boot_id", "Boot of the machine on which the processes run."},
              {"pid_namespace",
               "PID namespace of these PIDs, as in /proc/self/ns/pid; in another namespace they "
               "mean other processes."},
              {"processes",
               "Processes for the caller to signal, as the kernel permits. Empty for "
               "callers with a token or certificate."},
              {"left_out", "Number of further processes; repeat the request to get them."},
              {"why", "Why no process is listed; otherwise empty."})
inline constexpr std::size_t kMaxUnsignalled = 1000;

struct ReleaseAnswer : LeaseAnswer {
  std::optional<UnsignalledProcesses> unsignalled;
};
BOOST_DESCRIBE_STRUCT(ReleaseAnswer, (LeaseAnswer), (unsignalled))
GPUYARD_ABOUT(ReleaseAnswer,
              {"unsignalled",
               "Processes that did not get the signal of the request; null: there are none, or no "
               "signal was requested."})

struct RenewRequest {
  double ttl_s = 0;  // from now
  std::optional<std::uint64_t> fence;
};
BOOST_DESCRIBE_STRUCT(RenewRequest, (), (ttl_s, fence))
GPUYARD_ABOUT(RenewRequest,
              {"ttl_s", "Seconds from now until the lease expires.", to_seconds(lease::kMinTtl),
               to_seconds(lease::kMaxTtl)},
              {"fence", "Fence of the lease; refused if it is from another grant.", 0,
               kMaxExactInteger})

// A process to be counted to a lease: the command of `gpuyard run`.
struct MemberRequest {
  std::uint32_t pid = 0;
  std::optional<std::uint64_t> fence;
};
BOOST_DESCRIBE_STRUCT(MemberRequest, (), (pid, fence))
GPUYARD_ABOUT(MemberRequest, {"pid", "PID of a process of the caller.", 1, kMaxPid},
              {"fence", "Fence of the lease; refused if it is from another grant.", 0,
               kMaxExactInteger})

// A running process that uses GPUs, and is to get a lease of them.
struct AdoptRequest {
  std::uint32_t pid = 0;
  std::optional<std::string> note;
};
BOOST_DESCRIBE_STRUCT(AdoptRequest, (), (pid, note))
GPUYARD_ABOUT(AdoptRequest, {"pid", "PID of a process of the caller.", 1, kMaxPid},
              {"note", "Note; at most 200 bytes.", 0, kMaxNoteBytes})

struct CordonRequest {
  std::string reason;
};
BOOST_DESCRIBE_STRUCT(CordonRequest, (), (reason))
GPUYARD_ABOUT(CordonRequest,
              {"reason", "Reason, visible to waiting users; at most 200 bytes.", 1, kMaxNoteBytes})

struct CordonResult : AnswerHead {
  std::vector<WithheldGpu> withheld;  // the GPUs of the request that are withheld now
};
BOOST_DESCRIBE_STRUCT(CordonResult, (AnswerHead), (withheld))

struct PooledGpu {
  std::uint32_t index = 0;
  std::string name;
  std::string vendor;
  bool leased = false;  // held or draining
};
BOOST_DESCRIBE_STRUCT(PooledGpu, (), (index, name, vendor, leased))
GPUYARD_ABOUT(PooledGpu, {"leased", "True if the GPU is leased, or its lease is draining."})

// The periodic load report; also the event `load`.
struct Load {
  std::vector<PooledGpu> gpu_pool;
  std::int64_t pending_claimers = 0;
  std::int64_t capacity = 0;
};
BOOST_DESCRIBE_STRUCT(Load, (), (gpu_pool, pending_claimers, capacity))

struct UsageQuery {
  std::optional<double> since_s;  // how far back; 7 days by default; the first day counts whole
  std::optional<usage::UsageGrouping> by;  // user by default
  std::optional<TextFormat> format;        // json by default
};
BOOST_DESCRIBE_STRUCT(UsageQuery, (), (since_s, by, format))
GPUYARD_ABOUT(UsageQuery, {"since_s",
                           "Start of the period, in seconds ago, up to 400 days; default 7 days. "
                           "The first day counts fully.",
                           0, std::chrono::seconds(usage::UsageStorage::kRowRetention).count()})

struct UsageRow {
  std::string key;                   // user's name or uid, day, UUID, lease, job or pod
  std::optional<std::uint32_t> uid;  // by user and by lease
  double gpu_hours = 0;
  std::optional<double> energy_kwh;  // null: none of it was measured
  bool energy_estimated = false;
  std::optional<double> mean_utilization_percent;
  std::optional<std::int64_t> peak_memory_bytes;  // on one GPU
  std::int64_t leases = 0;
  double energy_unknown_gpu_hours = 0;  // the part of gpu_hours that energy_kwh does not cover
  std::optional<Estimate> estimate;     // what energy_kwh cost; null where [energy] has no price
};
BOOST_DESCRIBE_STRUCT(UsageRow, (),
                      (key, uid, gpu_hours, energy_kwh, energy_estimated, mean_utilization_percent,
                       peak_memory_bytes, leases, energy_unknown_gpu_hours, estimate))

struct Usage : AnswerHead {
  std::string since;  // the beginning of a day in UTC
  std::string by;
  std::vector<UsageRow> rows;  // most GPU-hours first; days in order
  std::int64_t rows_left_out = 0;
  UsageRow unleased;               // use under no lease while the daemon ran
  std::vector<std::string> notes;  // remarks on these figures
};
BOOST_DESCRIBE_STRUCT(Usage, (AnswerHead), (since, by, rows, rows_left_out, unleased, notes))

// Events of the stream that answers a claim; the data is a Lease.
inline constexpr const char* kLeaseEvent = "lease";
inline constexpr const char* kLoadEvent = "load";

// Returns what a claim's body requests; it names GPUs as in the snapshot. Errors: invalid,
// not_found, unavailable.
// `known`: the claim that already has this id. Its GPUs were named when it was made; one may have
// been lost since, and its index given to another.
Result<lease::LeaseSpec> lease_spec_of(const LeaseRequest&, const gpuyard::Snapshot&,
                                       const lease::LeaseSpec* known = nullptr);
// Returns how long the answer may take while nothing is granted.
Duration answer_timeout_of(const LeaseRequest&);
// Returns the number of a signal by its name: TERM, INT, HUP or KILL.
Result<int> signal_of(std::string_view name);

// The user whom answers name for the leases of pods, which are no user of the machine.
inline constexpr const char* kPodsUser = "(pods)";

// Names by uid; a user who is not in it has no known name.
using UserNames = std::map<std::uint32_t, std::string>;

Usage usage_of(const usage::UsageReport&, const usage::UsageQuery&, const UserNames& = {});

// The header row of the CSV document, with its line end. A row for each of Usage::rows follows, and
// one without a key for the use under no lease.
inline constexpr const char* kUsageCsvHeader =
    "key,uid,gpu_hours,energy_kwh,energy_estimated,mean_utilization_percent,peak_memory_bytes,"
    "leases,energy_unknown_gpu_hours,estimated_cost,currency,estimated_co2_g\n";
std::string csv_of(const Usage&);
void put_estimates(Usage&, const Tariff&);

}  // namespace gpuyard::protocol

namespace gpuyard::json {

template <>
inline constexpr std::string_view schema_name<protocol::UnleasedProcess> = "Squatter";
template <>
inline constexpr std::string_view schema_name<protocol::Queue> = "LeaseQueue";
GPUYARD_SCHEMA(protocol::LeaseRequest);
GPUYARD_SCHEMA(protocol::LeasedGpu);
GPUYARD_SCHEMA(protocol::QueuePosition);
GPUYARD_SCHEMA(protocol::LeaseUsage);
GPUYARD_SCHEMA(protocol::Lease);
GPUYARD_SCHEMA(protocol::LeaseAnswer);
GPUYARD_SCHEMA(protocol::Leases);
GPUYARD_SCHEMA(protocol::UnleasedProcess);
GPUYARD_SCHEMA(protocol::WithheldGpu);
GPUYARD_SHAPE(protocol::Queue);
GPUYARD_SCHEMA(protocol::UnsignalledProcess);
GPUYARD_SCHEMA(protocol::UnsignalledProcesses);
GPUYARD_SCHEMA(protocol::ReleaseAnswer);
GPUYARD_SCHEMA(protocol::RenewRequest);
GPUYARD_SCHEMA(protocol::MemberRequest);
GPUYARD_SCHEMA(protocol::AdoptRequest);
GPUYARD_SCHEMA(protocol::CordonRequest);
GPUYARD_SCHEMA(protocol::CordonResult);
GPUYARD_SCHEMA(protocol::PooledGpu);
GPUYARD_SCHEMA(protocol::Load);
GPUYARD_SCHEMA(protocol::UsageRow);
GPUYARD_SCHEMA(protocol::Usage);

}  // namespace gpuyard::json
