// The routes that list leases, waiting claims and withheld GPUs.
#include "faces/api/queue_renderer.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "base/json_writer.h"
#include "faces/api/bound_route.h"
#include "faces/api/context.h"
#include "faces/api/gpu_names.h"
#include "faces/api/lease_cache.h"
#include "faces/api/responder.h"

namespace gpuyard::api {
namespace {

// An action, the GPUs that the request names and those that it changes.
struct GpuAction {
  std::string action;
  std::vector<DeviceId> named;
  std::vector<DeviceId> changed;
  bool forced = false;
};

GpuAction gpu_action_of(std::string action, const std::vector<DeviceId>& named,
                        const std::function<bool(const DeviceId&)>& changes) {
  GpuAction gpu_action{std::move(action), named, {}};
  std::ranges::copy_if(named, std::back_inserter(gpu_action.changed), changes);
  return gpu_action;
}

// Answers with the state of the named GPUs once the change is done.
lease::LeaseManager::OnDone answer_with(LeaseApi& api, const RouteCall& call,
                                        const GpuAction& gpu_action,
                                        const Responder<protocol::CordonResult>& respond) {
  return [&api, call, gpu_action, respond](const Result<void>& result) {
    if (!result) return respond(result.error());
    call.report_action(gpu_action.action, gpu_action.changed, gpu_action.forced);
    const std::vector<DeviceId>& gpus = gpu_action.named;
    respond(protocol::CordonResult{{1, is_simulated(api.facts.telemetry)},
                                   withheld_gpus_of(api.facts, gpus)});
  };
}

void get_leases(LeaseApi& api, const RouteCall& call, const NoParams&,
                const Responder<protocol::Leases>& respond) {
  auto live = api.leases.leases_with_gpus();
  std::ranges::sort(live, {}, [](const lease::Lease* lease) { return lease->fence; });
  protocol::Leases all;
  all.simulated = is_simulated(api.facts.telemetry);
  const Viewer viewer = viewer_of(call.principal);
  for (const lease::Lease* lease : live) {
    protocol::Lease view = view_of(api.facts, *lease, viewer);
    std::erase_if(view.gpus, [&](const auto& gpu) { return !call.principal.can_see(gpu.uuid); });
    if (!view.gpus.empty()) all.leases.push_back(std::move(view));
  }
  respond(std::move(all));
}

void get_queue(LeaseApi& api, const RouteCall& call, const NoParams&,
               const Responder<protocol::Queue>& respond) {
  if (!api.queue_renderer)
    api.queue_renderer = std::make_shared<QueueRenderer>(api.loop, api.facts);
  api.queue_renderer->render(viewer_of(call.principal), [respond](const QueueRenderer::Text& text) {
    respond.send_rendered(text);
  });
}

void get_load(LeaseApi& api, const NoParams&, const Responder<protocol::Load>& respond) {
  respond(load_of(api.leases));
}

void cordon_gpus(LeaseApi& api, const RouteCall& call, const protocol::ManagedGpus& named,
                 const protocol::CordonRequest& body,
                 const Responder<protocol::CordonResult>& respond) {
  const auto gpus =
      resolve_gpu_ids(*visible_snapshot(api.facts.telemetry, call.principal), named.id);
  if (!gpus) return respond(gpus.error());
  const lease::Caller caller = caller_of(call);
  const GpuAction gpu_action =
      gpu_action_of("cordon: " + body.reason, *gpus, [&](const DeviceId& gpu) {
        const auto now = api.leases.gpus().cordon_of(gpu);
        return !now || now->reason != body.reason || now->by != caller.name();
      });
  api.leases.cordon(caller, gpu_action.changed, body.reason,
                    answer_with(api, call, gpu_action, respond));
}

void override_withholding(LeaseApi& api, const RouteCall& call, const protocol::ManagedGpus& named,
                          const protocol::CordonRequest& body,
                          const Responder<protocol::CordonResult>& respond) {
  const auto gpus =
      resolve_gpu_ids(*visible_snapshot(api.facts.telemetry, call.principal), named.id);
  if (!gpus) return respond(gpus.error());
  GpuAction gpu_action = gpu_action_of(
      "lease although withheld: " + body.reason, *gpus,
      [&](const DeviceId& gpu) { return api.leases.gpus().withheld_reason(gpu).has_value(); });
  gpu_action.forced = true;
  api.leases.override_withholding(caller_of(call), *gpus, body.reason,
                                  answer_with(api, call, gpu_action, respond));
}

void uncordon_gpus(LeaseApi& api, const RouteCall& call, const protocol::ManagedGpus& named,
                   const Responder<protocol::CordonResult>& respond) {
  const auto gpus =
      resolve_gpu_ids(*visible_snapshot(api.facts.telemetry, call.principal), named.id);
  if (!gpus) return respond(gpus.error());
  const GpuAction gpu_action = gpu_action_of("uncordon", *gpus, [&](const DeviceId& gpu) {
    return api.leases.gpus().cordon_of(gpu).has_value();
  });
  api.leases.uncordon(caller_of(call), gpu_action.changed,
                      answer_with(api, call, gpu_action, respond));
}

std::string row_text(const LeaseFacts& facts, const lease::Lease& lease,
                     const lease::QueuePosition& position, const Viewer& viewer) {
  protocol::Lease view = view_of(facts, lease, viewer);
  view.place = position_view_of(facts, lease, position, viewer);
  return json::to_json(view);
}

// Returns the queue without its waiting claims.
protocol::Queue queue_without_claims(const LeaseFacts& facts, const Viewer& viewer) {
  const lease::LeaseManager& leases = facts.leases;
  protocol::Queue queue;
  queue.simulated = is_simulated(facts.telemetry);
  queue.pending_claimers = static_cast<std::int64_t>(leases.waiting_claim_count());
  for (const auto& [gpu, unleased] : leases.gpus().unleased().all()) {
    for (const lease::ObservedProcess& process : unleased) {
      if (process.attribution != lease::ObservedProcess::Attribution::outsider) continue;
      queue.squatters.push_back(unleased_process_of(facts, gpu, process, viewer));
    }
  }
  std::ranges::sort(queue.squatters, {}, [](const protocol::UnleasedProcess& one) {
    return std::pair(one.index, one.pid);
  });
  std::vector<DeviceId> all;
  for (const auto& [gpu, slot] : leases.gpus().gpus()) all.push_back(gpu);
  queue.withheld = withheld_gpus_of(facts, all);
  queue.notes = leases.notes();
  return queue;
}

bool has_unleased_process(const lease::GpuPool& gpus, uid_t uid) {
  return std::ranges::any_of(gpus.unleased().all(), [&](const auto& one) {
    return std::ranges::count(one.second, uid, &lease::ObservedProcess::uid) > 0;
  });
}

std::string render_page(const LeaseFacts& facts, const Viewer& viewer, const std::string& rows) {
  std::string text = json::to_json(queue_without_claims(facts, viewer));
  constexpr std::string_view kNone = "\"waiting\":[";
  return text.insert(text.find(kNone) + kNone.size(), rows);
}

}  // namespace

std::vector<BoundRoute> lease_list_routes() {
  return {bind(protocol::kLeases, &get_leases)};
}

std::vector<BoundRoute> queue_routes() {
  return {
      bind(protocol::kQueue, &get_queue),
      bind(protocol::kLoad, &get_load),
  };
}

std::vector<BoundRoute> cordon_routes() {
  return {
      bind(protocol::kCordon, &cordon_gpus),
      bind(protocol::kUncordon, &uncordon_gpus),
      bind(protocol::kOverrideWithholding, &override_withholding),
  };
}

void QueueRenderer::render(const Viewer& viewer, OnRendered on_rendered) {
  if (facts_.leases.waiting_claim_count() <= kMaxUncachedClaims) {
    const auto snapshot = take_snapshot();
    std::string rows;
    for (const Row& row : snapshot->rows) {
      if (!rows.empty()) rows += ',';
      rows += row_text(facts_, *facts_.leases.find(row.lease), row.position, viewer);
    }
    return on_rendered(std::make_shared<const std::string>(render_page(facts_, viewer, rows)));
  }
  if (!newest_ || facts_.loop.now() - newest_->at >= kPageLifetime) newest_ = take_snapshot();
  const auto [found, is_new] = newest_->pages.try_emplace(key_of(*newest_, viewer));
  Page& page = found->second;
  if (page.text) return on_rendered(page.text);
  page.callbacks.push_back(std::move(on_rendered));
  if (!is_new) return;
  page.viewer = viewer;
  jobs_.push_back({newest_, &page, {}});
  if (jobs_.size() == 1) run_job();
}

std::shared_ptr<QueueRenderer::QueueSnapshot> QueueRenderer::take_snapshot() const {
  auto snapshot = std::make_shared<QueueSnapshot>();
  snapshot->at = facts_.loop.now();
  for (lease::QueueEntry& one : facts_.leases.queue_entries(kMaxShownClaims)) {
    const lease::Lease* lease = facts_.leases.find(one.lease);
    if (lease == nullptr || lease->state != lease::LeaseState::waiting) continue;
    snapshot->rows.push_back({std::move(one.lease), lease->uid, one.queue_position, {}, {}});
  }
  return snapshot;
}

std::string QueueRenderer::key_of(const QueueSnapshot& snapshot, const Viewer& viewer) const {
  if (!viewer.is_local()) return "tcp";
  if (viewer.admin) return "admin";
  const bool waits = std::ranges::count(snapshot.rows, *viewer.uid, &Row::uid) > 0;
  const bool has_own_rows = waits || has_unleased_process(facts_.leases.gpus(), *viewer.uid);
  return has_own_rows ? std::to_string(*viewer.uid) : "local";
}

// For viewers other than its owner a row is rendered once, and then shared.
void QueueRenderer::add_row(Row& row, const Viewer& viewer, std::string& rows) const {
  const lease::Lease* lease = facts_.leases.find(row.lease);
  // The lease may have changed since the snapshot.
  if (lease == nullptr || lease->state != lease::LeaseState::waiting) return;
  if (!rows.empty()) rows += ',';
  if (viewer.is_owner_or_admin(row.uid)) {
    rows += row_text(facts_, *lease, row.position, viewer);
    return;
  }
  std::string& shared = viewer.is_local() ? row.for_local : row.for_tcp;
  if (shared.empty()) {
    const Viewer other_user{viewer.is_local() ? std::optional(static_cast<uid_t>(-1))
                                              : std::nullopt};
    shared = row_text(facts_, *lease, row.position, other_user);
  }
  rows += shared;
}

void QueueRenderer::run_job() {
  RenderJob& job = jobs_.front();
  auto& rows = job.snapshot->rows;
  const std::size_t end = std::min(job.next + kRowsPerTurn, rows.size());
  for (; job.next < end; ++job.next) add_row(rows[job.next], job.page->viewer, job.rows);
  if (job.next == rows.size()) {
    const RenderJob finished = std::move(job);
    jobs_.pop_front();
    finish_job(finished);
  }
  if (jobs_.empty()) return;
  loop_.post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->run_job();
  });
}

void QueueRenderer::finish_job(const RenderJob& job) {
  Page& page = *job.page;
  page.text = std::make_shared<const std::string>(render_page(facts_, page.viewer, job.rows));
  for (const OnRendered& on_rendered : std::exchange(page.callbacks, {})) on_rendered(page.text);
}

}  // namespace gpuyard::api
