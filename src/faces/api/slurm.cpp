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

SlurmGpu gpu_of(Context& context, const DeviceState& gpu) {
  protocol::GpuVerdict verdict = verdict_of(context, gpu);
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

protocol::SlurmJob job_of(const Context& context, const lease::Lease& lease) {
  protocol::SlurmJob job;
  const std::string_view name = lease::job_of(lease);
  job.job = name.substr(lease::kSlurmJobPrefix.size());
  job.lease = lease.id;
  job.state = lease.state;
  job.uid = lease.uid;
  job.user = context.user_name(lease.uid);
  for (const DeviceId& gpu : lease.gpus) {
    if (const DeviceInfo* const info = info_of(context, gpu)) job.gpus.push_back(info->index);
  }
  job.since = to_rfc3339(lease.requested_wall);
  if (context.leases.has_leftover(lease.id)) job.left = lease.detail;
  if (lease.drain_started_wall)
    job.draining_s = to_seconds(context.loop.wall() - *lease.drain_started_wall);
  if (const auto use = context.lease_usage(lease)) job.idle_s = use->idle_s;
  return job;
}

SlurmNode node_of(Context& context) {
  const telemetry::SnapshotPtr snapshot = context.telemetry.latest();
  SlurmNode node;
  node.simulated = snapshot->driver.info.simulated;
  if (!snapshot->driver.initialised) node.driver_error = snapshot->driver.why;
  node.driver_down = is_driver_down(context);
  node.observes = context.leases.gpus().allocator() == lease::Allocator::slurm;
  node.trouble = context.slurm_error;
  for (const DeviceState& gpu : snapshot->devices) node.gpus.push_back(gpu_of(context, gpu));
  for (const lease::Lease* lease : jobs_with_gpus(context.leases, lease::Allocator::slurm))
    node.jobs.push_back(job_of(context, *lease));
  return node;
}

void get_slurm(Context& context, const NoParams&, const Responder<SlurmNode>& respond) {
  respond(node_of(context));
}

void check_slurm(Context& context, const RouteCall& call, const NoParams&,
                 const protocol::SlurmCheck& body, const Responder<SlurmNode>& respond) {
  if (body.trouble) context.slurm_error = *body.trouble;
  const bool before = context.leases.gpus().is_observe_only();
  context.leases.accept_report(lease::Allocator::slurm);
  report_observe_only(context.leases, call, before);
  respond(node_of(context));
}

void forget_slurm(Context& context, const RouteCall& call, const NoParams&,
                  const Responder<SlurmNode>& respond) {
  stop_observing(context.leases, call, lease::Allocator::slurm,
                 [&context, respond](const Result<void>& result) {
                   if (!result) return respond(result.error());
                   context.slurm_error.clear();
                   respond(node_of(context));
                 });
}

lease::LeaseManager::OnLease answer_with(Context& context, const RouteCall& call,
                                         const Responder<LeaseAnswer>& respond) {
  return
      [&context, viewer = viewer_of(call.principal), respond](const Result<lease::Lease>& lease) {
        if (!lease) return respond(lease.error());
        respond(answer_of(context, view_of(context, *lease, viewer)));
      };
}

void get_job(Context& context, const RouteCall& call, const JobName& named,
             const Responder<LeaseAnswer>& respond) {
  const auto name = lease::make_slurm_job_name(named.job);
  if (!name) return respond(name.error());
  const lease::Lease* const lease = context.leases.find_job(*name);
  if (lease == nullptr) {
    return respond(
        Error{Errc::not_found,
              fmt::format("job {} not found: it had no GPU here, or ended more than a day ago",
                          named.job)});
  }
  respond(answer_of(context, view_of(context, *lease, viewer_of(call.principal))));
}

struct JobGpus {
  std::vector<DeviceId> ids = {};
  std::vector<std::int64_t> unknown = {};
};

// Errors: unavailable, not_found.
Result<JobGpus> resolve_minors(Context& context, const std::vector<std::int64_t>& minors) {
  const telemetry::SnapshotPtr snapshot = context.telemetry.latest();
  if (!snapshot->driver.initialised) return Error{Errc::unavailable, snapshot->driver.why};
  JobGpus gpus;
  std::map<std::int64_t, DeviceId> all;
  for (const DeviceState& gpu : snapshot->devices) {
    if (const auto minor = minor_of(context, gpu)) all.emplace(*minor, gpu.info.id);
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

void begin_job(Context& context, const RouteCall& call, const JobName& named,
               const protocol::SlurmJobRequest& body,
               const Responder<protocol::SlurmJobStarted>& respond) {
  const auto name = lease::make_slurm_job_name(named.job);
  if (!name) return respond(name.error());
  const std::string note = body.note.value_or("");
  auto gpus = resolve_minors(context, body.minors);
  if (!gpus) return respond(gpus.error());
  const bool before = context.leases.gpus().is_observe_only();
  context.leases.begin_job(caller_of(call), {*name, body.uid, gpus->ids, note},
                           [&context, viewer = viewer_of(call.principal), unknown = gpus->unknown,
                            respond](const Result<lease::Lease>& lease) {
                             if (!lease) return respond(lease.error());
                             protocol::SlurmJobStarted started;
                             started.simulated = is_simulated(context.telemetry);
                             started.lease = view_of(context, *lease, viewer);
                             started.unknown = unknown;
                             for (const DeviceState& gpu : context.telemetry.latest()->devices) {
                               if (std::ranges::find(lease->gpus, gpu.info.id) == lease->gpus.end())
                                 continue;
                               SlurmGpu view = gpu_of(context, gpu);
                               if (view.rule) started.sick.push_back(std::move(view));
                             }
                             respond(std::move(started));
                           });
  report_observe_only(context.leases, call, before);
}

void end_job(Context& context, const RouteCall& call, const JobName& named,
             const Responder<LeaseAnswer>& respond) {
  const auto name = lease::make_slurm_job_name(named.job);
  if (!name) return respond(name.error());
  context.leases.end_job(caller_of(call), *name, answer_with(context, call, respond));
}

}  // namespace

std::vector<BoundRoute> slurm_routes() {
  return {bind(protocol::kSlurm, &get_slurm),          bind(protocol::kCheckSlurm, &check_slurm),
          bind(protocol::kForgetSlurm, &forget_slurm), bind(protocol::kSlurmJob, &get_job),
          bind(protocol::kBeginJob, &begin_job),       bind(protocol::kEndJob, &end_job)};
}

}  // namespace gpuyard::api
