// What the hooks of Slurm on this machine say and ask. Slurm names a GPU by the number of its
// device file, its minor number.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_shape.h"
#include "base/record.h"
#include "lease/policy.h"
#include "protocol/leases.h"
#include "protocol/resources.h"
#include "protocol/route.h"

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
GPUYARD_ABOUT(SlurmGpu, {"minor", "The N of its device file /dev/nvidiaN; null: not known."},
              {"rule", "The rule whose alert keeps it in quarantine; null: it gets work."},
              {"unknown", "What should be known of it and is not now; null: nothing."})

struct SlurmJob {
  std::string job;
  std::string lease;
  lease::State state{};
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
GPUYARD_ABOUT(SlurmJob, {"left", "What the job, which is over, left on its GPUs; else empty."},
              {"draining_s", "How long it has been over; null: it is not."},
              {"idle_s", "How long all its GPUs have been idle; 0: one is busy."})

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
              {"driver_down", "There has been no driver for so long that an alert fires."},
              {"observes", "Slurm hands out the GPUs, and leases only observe."},
              {"trouble", "What keeps a hook from its work; else empty."},
              {"jobs", "Those that have GPUs, or left something on them."})

struct SlurmCheck {
  std::optional<std::string> trouble;
};
BOOST_DESCRIBE_STRUCT(SlurmCheck, (), (trouble))
GPUYARD_ABOUT(SlurmCheck, {"trouble",
                           "What keeps the hook from its work, at most 200 bytes; empty: nothing. "
                           "Left out: as it said last.",
                           0, kLongestNote})

inline constexpr double kLastMinor = 1'048'575;  // on Linux

struct JobWish {
  std::uint32_t uid = 0;
  std::vector<std::int64_t> minors;
  std::optional<std::string> note;
};
BOOST_DESCRIBE_STRUCT(JobWish, (), (uid, minors, note))
GPUYARD_ABOUT(JobWish, {"uid", "Whose job it is.", 0, kLastUid},
              {"minors", "The numbers of its GPUs' device files.", 1, kMostGpuNames, 0, kLastMinor},
              {"note", "For people: the name of the job; at most 200 bytes.", 0, kLongestNote})

struct SlurmBegun {
  int schema = kSchemaVersion;
  bool simulated = false;
  Lease lease;
  std::vector<SlurmGpu> sick;
  std::vector<std::int64_t> unknown;
};
BOOST_DESCRIBE_STRUCT(SlurmBegun, (), (schema, simulated, lease, sick, unknown))
GPUYARD_ABOUT(SlurmBegun, {"sick", "Those of the job's GPUs that are in quarantine."},
              {"unknown", "Numbers of the job that the driver has no GPU for."})

// The routes.

inline constexpr std::array kBegins = {Errc::not_found, Errc::conflict, Errc::unavailable};
inline constexpr std::array kNeedsJob = {Errc::not_found, Errc::unavailable};
inline constexpr std::array kForgets = {Errc::conflict, Errc::unavailable};

inline constexpr Route<NoParams, SlurmNode> kSlurm{
    {"GET", "/api/gpu/slurm", "Slurm", Scope::read, Gpus::whole,
     "What a health check of Slurm asks for: which GPUs are sick and why, and which jobs have "
     "GPUs here."}};

inline constexpr Route<NoParams, SlurmNode, SlurmCheck> kCheckSlurm{
    {"POST", "/api/gpu/slurm/check", "Slurm", Scope::admin, Gpus::whole,
     "The same, for Slurm's hook, which says what keeps it from its work. From then on Slurm hands "
     "out the GPUs, and leases only observe, unless [lease] mode says otherwise."}};

inline constexpr Route<JobName, LeaseAnswer> kSlurmJob{
    {"GET", "/api/gpu/slurm/jobs/{job}", "Slurm", Scope::read, Gpus::whole,
     "The last lease of a job here, and what was used under it.", kNeedsJob}};

inline constexpr Route<NoParams, SlurmNode> kForgetSlurm{
    {"DELETE", "/api/gpu/slurm", "Slurm", Scope::admin, Gpus::whole,
     "Leases the GPUs through gpuyard again, until the next request of a Slurm hook. Refused while "
     "a Slurm job has GPUs here, and if [lease] mode is observe. Ended jobs are forgotten; their "
     "usage records remain.",
     kForgets}};

// Routes through which hooks report a job. The records of leases and jobs have its lease and usage,
// so the audit has no line.
constexpr RouteInfo about_job(std::string_view method, std::string_view summary,
                              std::span<const Errc> failures) {
  RouteInfo route{method,  "/api/gpu/slurm/jobs/{job}", "Slurm", Scope::admin, Gpus::whole, summary,
                  failures};
  route.audit = Audited::books;
  return route;
}

inline constexpr Route<JobName, SlurmBegun, JobWish> kBeginJob{about_job(
    "PUT",
    "A job begins on GPUs that Slurm gave to it: a lease of them, whatever their condition. A job "
    "that had one of them is over. Said again, it is the same job.",
    kBegins)};

inline constexpr Route<JobName, LeaseAnswer> kEndJob{about_job(
    "DELETE", "A job is over. Its lease drains until its processes are seen gone.", kNeedsJob)};

}  // namespace gpuyard::protocol

namespace gpuyard::json {

template <OneOf<protocol::SlurmGpu, protocol::SlurmJob, protocol::SlurmNode, protocol::SlurmCheck,
                protocol::JobWish, protocol::SlurmBegun>
              T>
inline constexpr bool has_schema<T> = true;

}  // namespace gpuyard::json
