// The reports and queries of the hooks of Slurm on this machine. Slurm names a GPU by the number of
// its device file, its minor number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_shape.h"
#include "base/record.h"
#include "core/lease/lease_policy.h"
#include "faces/protocol/leases.h"
#include "faces/protocol/resources.h"
#include "faces/protocol/route.h"

namespace gpuyard::protocol {

struct JobName {
  std::string job;  // its number
};
BOOST_DESCRIBE_STRUCT(JobName, (), (job))

struct SlurmGpu {
  std::uint32_t index = 0;
  std::optional<std::int64_t> minor;
  std::string uuid;
  std::string pci_address;
  std::string name;
  std::optional<std::string> rule;  // whose alert keeps it in quarantine
  std::string why;
  std::string advice;
  std::optional<std::string> unknown;  // what should be known of it and is not
};
BOOST_DESCRIBE_STRUCT(SlurmGpu, (),
                      (index, minor, uuid, pci_address, name, rule, why, advice, unknown))
GPUYARD_ABOUT(SlurmGpu, {"minor", "The N of its device file /dev/nvidiaN; null: unknown."},
              {"rule", "The rule whose alert quarantines it; null: not quarantined."},
              {"unknown", "Why its condition is not fully known now; null: it is."})

struct SlurmJob {
  std::string job;
  std::string lease;
  lease::LeaseState state{};
  std::uint32_t uid = 0;
  std::optional<std::string> user;
  std::vector<std::uint32_t> gpus;  // indexes
  std::string since;                // RFC 3339
  std::string left;
  std::optional<double> draining_s;
  std::optional<double> idle_s;
};
BOOST_DESCRIBE_STRUCT(SlurmJob, (),
                      (job, lease, state, uid, user, gpus, since, left, draining_s, idle_s))
GPUYARD_ABOUT(SlurmJob, {"left", "What the ended job left on its GPUs; otherwise empty."},
              {"draining_s", "Seconds since it ended; null: still running."},
              {"idle_s", "Seconds for which all its GPUs have been idle; 0: one is busy."})

struct SlurmNode {
  int schema = kSchemaVersion;
  bool simulated = false;
  std::optional<std::string> driver_error;
  bool driver_down = false;
  bool observes = false;
  std::string trouble;
  std::vector<SlurmGpu> gpus;
  std::vector<SlurmJob> jobs;
};
BOOST_DESCRIBE_STRUCT(SlurmNode, (),
                      (schema, simulated, driver_error, driver_down, observes, trouble, gpus, jobs))
GPUYARD_ABOUT(SlurmNode,
              {"driver_down", "The driver has been missing long enough for an alert to fire."},
              {"observes", "Slurm allocates the GPUs, and leases only observe."},
              {"trouble", "The error of a hook; otherwise empty."},
              {"jobs", "Jobs that have GPUs, or left something on them."})

struct SlurmCheck {
  std::optional<std::string> trouble;
};
BOOST_DESCRIBE_STRUCT(SlurmCheck, (), (trouble))
GPUYARD_ABOUT(SlurmCheck,
              {"trouble",
               "The error of the hook, at most 200 bytes; empty: none. Omitted: unchanged.", 0,
               kMaxNoteBytes})

inline constexpr double kMaxMinor = 1'048'575;  // on Linux

struct SlurmJobRequest {
  std::uint32_t uid = 0;
  std::vector<std::int64_t> minors;
  std::optional<std::string> note;
};
BOOST_DESCRIBE_STRUCT(SlurmJobRequest, (), (uid, minors, note))
GPUYARD_ABOUT(SlurmJobRequest, {"uid", "Owner of the job.", 0, kMaxUid},
              {"minors", "Device file numbers of its GPUs.", 1, kMaxGpuNames, 0, kMaxMinor},
              {"note", "Name of the job, for display; at most 200 bytes.", 0, kMaxNoteBytes})

struct SlurmJobStarted {
  int schema = kSchemaVersion;
  bool simulated = false;
  Lease lease;
  std::vector<SlurmGpu> sick;
  std::vector<std::int64_t> unknown;
};
BOOST_DESCRIBE_STRUCT(SlurmJobStarted, (), (schema, simulated, lease, sick, unknown))
GPUYARD_ABOUT(SlurmJobStarted, {"sick", "GPUs of the job that are quarantined."},
              {"unknown", "Device file numbers of the job without a GPU in the driver."})

inline constexpr Route<NoParams, SlurmNode> kSlurm{
    {"GET", "/api/gpu/slurm", "Slurm", Scope::read, GpuScope::whole,
     "State for Slurm's health check: quarantined GPUs with reasons, and jobs with GPUs here."}};

inline constexpr Route<NoParams, SlurmNode, SlurmCheck> kCheckSlurm{
    {"POST", "/api/gpu/slurm/check", "Slurm", Scope::admin, GpuScope::whole,
     "Returns the state for Slurm's health check, and stores the errors that the hook reports. "
     "From "
     "then on, Slurm allocates the GPUs and leases only observe, unless [lease] mode says "
     "otherwise."}};

inline constexpr Route<JobName, LeaseAnswer> kSlurmJob{
    {"GET", "/api/gpu/slurm/jobs/{job}", "Slurm", Scope::read, GpuScope::whole,
     "The last lease of a job here, with its usage.", kNotFoundOrUnavailable}};

inline constexpr Route<NoParams, SlurmNode> kForgetSlurm{
    {"DELETE", "/api/gpu/slurm", "Slurm", Scope::admin, GpuScope::whole,
     "Leases the GPUs through gpuyard again, until the next request of a Slurm hook. Refused while "
     "a Slurm job has GPUs here, and if [lease] mode is observe. Ended jobs are forgotten; their "
     "usage records remain.",
     kConflictOrUnavailable}};

// Routes through which hooks report a job. The records of leases and jobs have its lease and usage,
// so the audit has no line.
constexpr RouteInfo job_route(std::string_view method, std::string_view summary,
                              std::span<const Errc> failures) {
  RouteInfo route{
      method,  "/api/gpu/slurm/jobs/{job}", "Slurm", Scope::admin, GpuScope::whole, summary,
      failures};
  route.audit = AuditWriter::none;
  return route;
}

inline constexpr Route<JobName, SlurmJobStarted, SlurmJobRequest> kBeginJob{job_route(
    "PUT",
    "Records that a job started on GPUs allocated by Slurm, as a lease, whatever their condition. "
    "A job that had one of them has ended. Repeated requests are for the same job.",
    kNotFoundConflictOrUnavailable)};

inline constexpr Route<JobName, LeaseAnswer> kEndJob{job_route(
    "DELETE", "Records that a job has ended. Its lease drains until its processes have exited.",
    kNotFoundOrUnavailable)};

}  // namespace gpuyard::protocol

namespace gpuyard::json {

GPUYARD_SCHEMA(protocol::SlurmGpu);
GPUYARD_SCHEMA(protocol::SlurmJob);
GPUYARD_SCHEMA(protocol::SlurmNode);
GPUYARD_SCHEMA(protocol::SlurmCheck);
GPUYARD_SCHEMA(protocol::SlurmJobRequest);
GPUYARD_SCHEMA(protocol::SlurmJobStarted);

}  // namespace gpuyard::json
