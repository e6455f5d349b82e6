// The routes of the Kubernetes agent: which pods have GPUs here, and which GPUs pods cannot get.
#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "faces/api/bound_route.h"
#include "faces/api/context.h"
#include "faces/api/external_jobs.h"
#include "faces/api/lease_view.h"
#include "faces/api/responder.h"
#include "faces/protocol/pods.h"

namespace gpuyard::api {
namespace {

using protocol::LeaseAnswer;
using protocol::PodName;

protocol::Pod pod_of(const LeaseFacts& facts, const lease::Lease& lease) {
  protocol::Pod pod;
  pod.pod = lease.pod;
  pod.lease = lease.id;
  pod.state = lease.state;
  for (const DeviceId& gpu : lease.gpus) {
    const DeviceInfo* const info = info_of(facts, gpu);
    if (info != nullptr) pod.gpus.push_back(info->index);
    pod.uuids.push_back(info != nullptr ? info->uuid : gpu);
  }
  pod.since = to_rfc3339(lease.requested_wall);
  if (facts.leases.has_leftover(lease.id)) pod.left = lease.detail;
  if (lease.drain_started_wall)
    pod.draining_s = to_seconds(facts.loop.wall() - *lease.drain_started_wall);
  const auto use = facts.usage.usage_of(lease.id);
  if (use && use->idle) pod.idle_s = to_seconds(*use->idle);
  return pod;
}

protocol::Pods pods_of(const PodApi& api) {
  protocol::Pods pods;
  pods.simulated = is_simulated(api.facts.telemetry);
  pods.observes = api.leases.gpus().allocator() == lease::Allocator::kubernetes;
  for (const lease::Lease* lease : jobs_with_gpus(api.leases, lease::Allocator::kubernetes))
    pods.pods.push_back(pod_of(api.facts, *lease));
  return pods;
}

void get_pods(PodApi& api, const NoParams&, const Responder<protocol::Pods>& respond) {
  respond(pods_of(api));
}

void forget_pods(PodApi& api, const RouteCall& call, const NoParams&,
                 const Responder<protocol::Pods>& respond) {
  stop_observing(api.leases, call, lease::Allocator::kubernetes,
                 [&api, respond](const Result<void>& result) {
                   if (!result) return respond(result.error());
                   respond(pods_of(api));
                 });
}

struct PodGpus {
  std::vector<DeviceId> ids = {};
  std::vector<std::string> unknown = {};
};

// Errors: unavailable, not_found.
Result<PodGpus> resolve_uuids(const telemetry::Telemetry& telemetry,
                              const std::vector<std::string>& uuids) {
  const telemetry::SnapshotPtr& snapshot = telemetry.latest();
  if (!snapshot->driver.initialised) return Error{Errc::unavailable, snapshot->driver.why};
  PodGpus gpus;
  for (const std::string& uuid : uuids) {
    const auto found = std::ranges::find(snapshot->devices, uuid,
                                         [](const DeviceState& gpu) { return gpu.info.uuid; });
    if (found != snapshot->devices.end()) {
      gpus.ids.push_back(found->info.id);
    } else {
      gpus.unknown.push_back(uuid);
    }
  }
  if (!gpus.ids.empty()) return gpus;
  return Error{Errc::not_found, fmt::format("the driver has no GPU {}", fmt::join(uuids, ", "))};
}

void begin_pod(PodApi& api, const RouteCall& call, const PodName& named,
               const protocol::PodRequest& body, const Responder<protocol::PodStarted>& respond) {
  const auto name = lease::make_pod_job_name(named.pod_namespace, named.pod);
  if (!name) return respond(name.error());
  auto gpus = resolve_uuids(api.facts.telemetry, body.uuids);
  if (!gpus) return respond(gpus.error());
  const bool before = api.leases.gpus().allocator().has_value();
  const lease::ExternalJob pod{*name, lease::kPodsUid, gpus->ids, body.note.value_or(""),
                               lease::Allocator::kubernetes};
  api.leases.begin_job(pod, [&api, viewer = viewer_of(call.principal), unknown = gpus->unknown,
                             respond](const Result<lease::Lease>& lease) {
    if (!lease) return respond(lease.error());
    protocol::PodStarted started;
    started.simulated = is_simulated(api.facts.telemetry);
    started.lease = view_of(api.facts, *lease, viewer);
    started.unknown = unknown;
    respond(std::move(started));
  });
  report_observe_only(api.leases, call, before);
}

void end_pod(PodApi& api, const RouteCall& call, const PodName& named,
             const Responder<LeaseAnswer>& respond) {
  const auto name = lease::make_pod_job_name(named.pod_namespace, named.pod);
  if (!name) return respond(name.error());
  api.leases.end_job(
      caller_of(call), *name,
      [&api, viewer = viewer_of(call.principal), name = *name,
       respond](const Result<lease::Lease>& lease) {
        if (lease) return respond(answer_of(api.facts, view_of(api.facts, *lease, viewer)));
        if (lease.error().code != Errc::not_found) return respond(lease.error());
        // The agent repeats a report whose answer it has missed.
        const lease::Lease* const ended = api.leases.find_job(name);
        if (ended != nullptr)
          return respond(answer_of(api.facts, view_of(api.facts, *ended, viewer)));
        respond(Error{Errc::not_found,
                      fmt::format("pod {} not found: it had no GPU here, or ended more than a day "
                                  "ago",
                                  name)});
      });
}

// A UUID that the driver does not have is accepted: the GPU may be listed again before the next
// report.
void report_device_plugin(PodApi& api, const RouteCall&, const NoParams&,
                          const protocol::DevicePluginReport& body,
                          const Responder<protocol::DevicePlugin>& respond) {
  api.plugin_report.update({body.hidden.begin(), body.hidden.end()}, api.facts.loop.now());
  protocol::DevicePlugin plugin;
  plugin.simulated = is_simulated(api.facts.telemetry);
  plugin.hidden = body.hidden;
  respond(std::move(plugin));
}

}  // namespace

std::vector<BoundRoute> pod_routes() {
  return {bind(protocol::kPods, &get_pods), bind(protocol::kForgetPods, &forget_pods),
          bind(protocol::kBeginPod, &begin_pod), bind(protocol::kEndPod, &end_pod),
          bind(protocol::kReportDevicePlugin, &report_device_plugin)};
}

}  // namespace gpuyard::api
