// The routes of Slurm's hooks: which GPUs are sick, and which jobs have GPUs here.
#include <algorithm>
#include <map>
#include <ranges>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "faces/api/bound_route.h"
#include "faces/api/context.h"
#include "faces/api/external_jobs.h"
#include "faces/api/lease_view.h"
#include "faces/api/responder.h"
#include "faces/api/verdict.h"
#include "faces/protocol/slurm.h"
#include "gpu/device/fitness.h"

namespace gpuyard::api {
namespace {

using protocol::JobName;
using protocol::LeaseAnswer;
using protocol::SlurmGpu;
using protocol::SlurmNode;

SlurmGpu gpu_of(VerdictApi& api, const DeviceState& gpu) {
  protocol::GpuVerdict verdict = verdict_of(api, gpu);
  SlurmGpu view{verdict.index,
                verdict.minor,
                std::move(verdict.uuid),
                std::move(verdict.pci_address),
                std::move(verdict.name),
                std::move(verdict.rule),
                {},
                std::move(verdict.advice),
                {}};
  if (view.rule) view.why = std::move(verdict.why);
  if (Fitness fitness = fitness_of(gpu); fitness.verdict == Verdict::unknown)
    view.unknown = std::move(fitness.why);
  return view;
}

protocol::SlurmJob job_of(const LeaseFacts& facts, const lease::Lease& lease) {
  protocol::SlurmJob job;
  const std::string_view name = lease::job_of(lease);
  job.job = name.substr(lease::kSlurmJobPrefix.size());
  job.lease = lease.id;
  job.state = lease.state;
  job.uid = lease.uid;
  job.user = facts.users.name_of(lease.uid);
  for (const DeviceId& gpu : lease.gpus) {
    if (const DeviceInfo* const info = info_of(facts, gpu)) job.gpus.push_back(info->index);
  }
  job.since = to_rfc3339(lease.requested_wall);
  if (facts.leases.has_leftover(lease.id)) job.left = lease.detail;
  if (lease.drain_started_wall)
    job.draining_s = to_seconds(facts.loop.wall() - *lease.drain_started_wall);
  const auto use = facts.usage.usage_of(lease.id);
  if (use && use->idle) job.idle_s = to_seconds(*use->idle);
  return job;
}

SlurmNode node_of(SlurmApi& api) {
  const telemetry::SnapshotPtr snapshot = api.facts.telemetry.latest();
  SlurmNode node;
  node.simulated = snapshot->driver.info.simulated;
  if (!snapshot->driver.initialised) node.driver_error = snapshot->driver.why;
  node.driver_down = is_driver_down(api.verdicts);
  node.observes = api.leases.gpus().allocator() == lease::Allocator::slurm;
  node.trouble = api.error;
  for (const DeviceState& gpu : snapshot->devices) node.gpus.push_back(gpu_of(api.verdicts, gpu));
  for (const lease::Lease* lease : jobs_with_gpus(api.leases, lease::Allocator::slurm))
    node.jobs.push_back(job_of(api.facts, *lease));
  return node;
}

void get_slurm(SlurmApi& api, const NoParams&, const Responder<SlurmNode>& respond) {
  respond(node_of(api));
}

void check_slurm(SlurmApi& api, const RouteCall& call, const NoParams&,
                 const protocol::SlurmCheck& body, const Responder<SlurmNode>& respond) {
  if (body.trouble) api.error = *body.trouble;
  const bool before = api.leases.gpus().allocator().has_value();
  api.leases.accept_report(lease::Allocator::slurm);
  report_observe_only(api.leases, call, before);
  respond(node_of(api));
}

void forget_slurm(SlurmApi& api, const RouteCall& call, const NoParams&,
                  const Responder<SlurmNode>& respond) {
  stop_observing(api.leases, call, lease::Allocator::slurm,
                 [&api, respond](const Result<void>& result) {
                   if (!result) return respond(result.error());
                   api.error.clear();
                   respond(node_of(api));
                 });
}

lease::LeaseManager::OnLease answer_with(SlurmApi& api, const RouteCall& call,
                                         const Responder<LeaseAnswer>& respond) {
  return [&api, viewer = viewer_of(call.principal), respond](const Result<lease::Lease>& lease) {
    if (!lease) return respond(lease.error());
    respond(answer_of(api.facts, view_of(api.facts, *lease, viewer)));
  };
}

void get_job(SlurmApi& api, const RouteCall& call, const JobName& named,
             const Responder<LeaseAnswer>& respond) {
  const auto name = lease::make_slurm_job_name(named.job);
  if (!name) return respond(name.error());
  const lease::Lease* const lease = api.leases.find_job(*name);
  if (lease == nullptr) {
    return respond(
        Error{Errc::not_found,
              fmt::format("job {} not found: it had no GPU here, or ended more than a day ago",
                          named.job)});
  }
  respond(answer_of(api.facts, view_of(api.facts, *lease, viewer_of(call.principal))));
}

struct JobGpus {
  std::vector<DeviceId> ids = {};
  std::vector<std::int64_t> unknown = {};
};

// Errors: unavailable, not_found.
Result<JobGpus> resolve_minors(VerdictApi& api, const std::vector<std::int64_t>& minors) {
  const telemetry::SnapshotPtr snapshot = api.telemetry.latest();
  if (!snapshot->driver.initialised) return Error{Errc::unavailable, snapshot->driver.why};
  JobGpus gpus;
  std::map<std::int64_t, DeviceId> all;
  for (const DeviceState& gpu : snapshot->devices) {
    if (const auto minor = minor_of(api, gpu)) all.emplace(*minor, gpu.info.id);
  }
  for (const std::int64_t minor : minors) {
    if (const auto found = all.find(minor); found != all.end()) {
      gpus.ids.push_back(found->second);
    } else {
      gpus.unknown.push_back(minor);
    }
  }
  if (!gpus.unknown.empty() && all.size() < snapshot->devices.size()) {
    return Error{Errc::unavailable, "not all device file numbers of the GPUs are known yet"};
  }
  if (!gpus.ids.empty()) return gpus;
  return Error{Errc::not_found,
               fmt::format("the driver has no GPU for /dev/nvidia{}; known device files: {}",
                           fmt::join(minors, ", "), fmt::join(all | std::views::keys, ", "))};
}

void begin_job(SlurmApi& api, const RouteCall& call, const JobName& named,
               const protocol::SlurmJobRequest& body,
               const Responder<protocol::SlurmJobStarted>& respond) {
  const auto name = lease::make_slurm_job_name(named.job);
  if (!name) return respond(name.error());
  const std::string note = body.note.value_or("");
  auto gpus = resolve_minors(api.verdicts, body.minors);
  if (!gpus) return respond(gpus.error());
  const bool before = api.leases.gpus().allocator().has_value();
  api.leases.begin_job({*name, body.uid, gpus->ids, note},
                       [&api, viewer = viewer_of(call.principal), unknown = gpus->unknown,
                        respond](const Result<lease::Lease>& lease) {
                         if (!lease) return respond(lease.error());
                         protocol::SlurmJobStarted started;
                         started.simulated = is_simulated(api.facts.telemetry);
                         started.lease = view_of(api.facts, *lease, viewer);
                         started.unknown = unknown;
                         for (const DeviceState& gpu : api.facts.telemetry.latest()->devices) {
                           if (std::ranges::find(lease->gpus, gpu.info.id) == lease->gpus.end())
                             continue;
                           SlurmGpu view = gpu_of(api.verdicts, gpu);
                           if (view.rule) started.sick.push_back(std::move(view));
                         }
                         respond(std::move(started));
                       });
  report_observe_only(api.leases, call, before);
}

void end_job(SlurmApi& api, const RouteCall& call, const JobName& named,
             const Responder<LeaseAnswer>& respond) {
  const auto name = lease::make_slurm_job_name(named.job);
  if (!name) return respond(name.error());
  api.leases.end_job(caller_of(call), *name, answer_with(api, call, respond));
}

}  // namespace

std::vector<BoundRoute> slurm_routes() {
  return {bind(protocol::kSlurm, &get_slurm),          bind(protocol::kCheckSlurm, &check_slurm),
          bind(protocol::kForgetSlurm, &forget_slurm), bind(protocol::kSlurmJob, &get_job),
          bind(protocol::kBeginJob, &begin_job),       bind(protocol::kEndJob, &end_job)};
}

}  // namespace gpuyard::api
