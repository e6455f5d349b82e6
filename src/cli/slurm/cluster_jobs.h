// The jobs of a Slurm cluster that wait for GPUs or have some: the answer of `gpuyard queue` and
// `gpuyard leases` through Slurm. Fields have the names of protocol::Lease where they mean the
// same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json_shape.h"
#include "base/record.h"
#include "base/result.h"
#include "faces/protocol/leases.h"

namespace gpuyard::cli {

// GPUs of one type that a job has on one host, or on each of several.
struct ClusterGpus {
  std::string hosts;
  std::string type;
  std::int64_t count = 0;
  std::vector<std::uint32_t> indexes;
};
BOOST_DESCRIBE_STRUCT(ClusterGpus, (), (hosts, type, count, indexes))
GPUYARD_ABOUT(ClusterGpus, {"hosts", "One host, or several in Slurm's form, such as n[1-3]."},
              {"type", "Type in gres.conf; empty: the GPUs have none."},
              {"count", "Number of GPUs on each of these hosts."},
              {"indexes", "Indexes in Slurm's count, that of gres.conf; empty: unknown."})

struct ClusterJob {
  std::string number;  // of scontrol; an array's jobs have one each. It is not in the JSON.
  std::string id;
  lease::LeaseState state{};
  std::string slurm_state;
  std::uint32_t uid = 0;
  std::string user;
  std::string note;
  std::optional<std::int64_t> wanted_gpus;
  std::vector<std::string> types;
  std::string hosts;
  std::vector<ClusterGpus> allocated;
  std::string asked;
  std::optional<std::string> granted;
  std::optional<std::string> until;
  std::optional<protocol::QueuePosition> place;
};
BOOST_DESCRIBE_STRUCT(ClusterJob, (),
                      (id, state, slurm_state, uid, user, note, wanted_gpus, types, hosts,
                       allocated, asked, granted, until, place))
GPUYARD_ABOUT(ClusterJob, {"id", "Job ID; pending jobs of an array are one, such as 17_[3-9]."},
              {"state", "waiting, held, or draining: the job is ending and still has its GPUs."},
              {"slurm_state", "State in Slurm's word, such as RUNNING."},
              {"note", "Name of the job."},
              {"wanted_gpus",
               "GPUs that the job asks for, or has; null: Slurm counts them at the start."},
              {"types", "Types of GPUs that the job asks for, or has; empty: any."},
              {"hosts", "Hosts of a job that has GPUs, in Slurm's form, such as n[1-3]."},
              {"allocated", "GPUs by host and type; empty: unknown, or the job waits."},
              {"until", "When Slurm ends the job at the latest; null: it waits."},
              {"place", "`why` is Slurm's reason, `expected_s` until Slurm expects to start it."})

struct ClusterQueue {
  int schema = protocol::kSchemaVersion;
  std::int64_t pending_claimers = 0;
  std::vector<ClusterJob> waiting;
  std::vector<std::string> notes;
};
BOOST_DESCRIBE_STRUCT(ClusterQueue, (), (schema, pending_claimers, waiting, notes))
GPUYARD_ABOUT(ClusterQueue, {"pending_claimers", "Number of pending jobs that ask for GPUs."},
              {"waiting", "By priority, the highest first; at most 1000."})

struct ClusterLeases {
  int schema = protocol::kSchemaVersion;
  std::vector<ClusterJob> leases;
  std::vector<std::string> notes;
};
BOOST_DESCRIBE_STRUCT(ClusterLeases, (), (schema, leases, notes))
GPUYARD_ABOUT(ClusterLeases, {"leases", "Jobs that have GPUs, oldest first."})

namespace slurm {

inline constexpr std::size_t kMaxListedJobs = 1000;  // of the queue, as of the daemon's

// The words of squeue for pending jobs, by priority, and for those with an allocation.
std::vector<std::string> pending_jobs_query();
std::vector<std::string> running_jobs_query();
// The words of scontrol for which GPUs each job has.
std::vector<std::string> allocations_query();

// Returns the queue from what pending_jobs_query() prints. Errc::unavailable: no line is a job.
Result<ClusterQueue> parse_queue(std::string_view squeue, WallTime now);

// Returns the jobs with GPUs from what running_jobs_query() and allocations_query() print. Without
// `scontrol`, a job has the number of GPUs that it asks for, and its allocation is unknown.
Result<ClusterLeases> parse_leases(std::string_view squeue, std::string_view scontrol);

}  // namespace slurm
}  // namespace gpuyard::cli
