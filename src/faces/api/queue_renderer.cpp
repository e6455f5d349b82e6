// The routes that list leases, waiting claims and GPUs that are not handed out.
#include "faces/api/queue_renderer.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "base/json_writer.h"
#include "faces/api/context.h"
#include "faces/api/devices.h"
#include "faces/api/lease_cache.h"
#include "faces/api/router.h"

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
  GpuAction deed{std::move(action), named, {}};
  std::ranges::copy_if(named, std::back_inserter(deed.changed), changes);
  return deed;
}

// Answers, once the change is done, with the state of the named GPUs at that time.
lease::LeaseManager::OnDone answer_with(Context& context, const RouteCall& asked,
                                        const GpuAction& deed,
                                        const Responder<protocol::CordonResult>& respond) {
  return [&context, asked, deed, respond](const Result<void>& done) {
    if (!done) return respond(done.error());
    asked.report_action(deed.action, deed.changed, deed.forced);
    const std::vector<DeviceId>& gpus = deed.named;
    respond(protocol::CordonResult{1, is_simulated(context), withheld_gpus_of(context, gpus)});
  };
}

void get_leases(Context& context, const RouteCall& asked, const NoParams&,
                const Responder<protocol::Leases>& respond) {
  auto live = context.leases.leases_with_gpus();
  std::ranges::sort(live, {}, [](const lease::Lease* lease) { return lease->fence; });
  protocol::Leases all;
  all.simulated = is_simulated(context);
  const Viewer viewer = viewer_of(asked.principal);
  for (const lease::Lease* lease : live) {
    protocol::Lease view = view_of(context, *lease, viewer);
    std::erase_if(view.gpus, [&](const auto& gpu) { return !asked.principal.can_see(gpu.uuid); });
    if (!view.gpus.empty()) all.leases.push_back(std::move(view));
  }
  respond(std::move(all));
}

void get_queue(Context& context, const RouteCall& asked, const NoParams&,
               const Responder<protocol::Queue>& respond) {
  if (!context.queue_renderer) context.queue_renderer = std::make_shared<QueueRenderer>(context);
  context.queue_renderer->render(
      viewer_of(asked.principal),
      [respond](const QueueRenderer::Text& text) { respond.send_rendered(text); });
}

void get_load(Context& context, const NoParams&, const Responder<protocol::Load>& respond) {
  respond(load_of(context.leases));
}

void cordon_gpus(Context& context, const RouteCall& asked, const protocol::ManagedGpus& named,
                 const protocol::CordonRequest& body,
                 const Responder<protocol::CordonResult>& respond) {
  const auto gpus = resolve_gpu_ids(*visible_snapshot(context, asked.principal), named.id);
  if (!gpus) return respond(gpus.error());
  const lease::Caller caller = caller_of(asked);
  const GpuAction deed = gpu_action_of("cordon: " + body.reason, *gpus, [&](const DeviceId& gpu) {
    const auto now = context.leases.gpus().cordon_of(gpu);
    return !now || now->reason != body.reason || now->by != caller.name();
  });
  context.leases.cordon(caller, deed.changed, body.reason,
                        answer_with(context, asked, deed, respond));
}

void override_withholding(Context& context, const RouteCall& asked,
                          const protocol::ManagedGpus& named, const protocol::CordonRequest& body,
                          const Responder<protocol::CordonResult>& respond) {
  const auto gpus = resolve_gpu_ids(*visible_snapshot(context, asked.principal), named.id);
  if (!gpus) return respond(gpus.error());
  GpuAction deed = gpu_action_of(
      "lease although withheld: " + body.reason, *gpus,
      [&](const DeviceId& gpu) { return context.leases.gpus().withheld_reason(gpu).has_value(); });
  deed.forced = true;
  context.leases.override_withholding(caller_of(asked), *gpus, body.reason,
                                      answer_with(context, asked, deed, respond));
}

void uncordon_gpus(Context& context, const RouteCall& asked, const protocol::ManagedGpus& named,
                   const Responder<protocol::CordonResult>& respond) {
  const auto gpus = resolve_gpu_ids(*visible_snapshot(context, asked.principal), named.id);
  if (!gpus) return respond(gpus.error());
  const GpuAction deed = gpu_action_of("uncordon", *gpus, [&](const DeviceId& gpu) {
    return context.leases.gpus().cordon_of(gpu).has_value();
  });
  context.leases.uncordon(caller_of(asked), deed.changed,
                          answer_with(context, asked, deed, respond));
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

namespace {

std::string row_text(Context& context, const lease::Lease& lease,
                     const lease::QueuePosition& outlook, const Viewer& viewer) {
  protocol::Lease view = view_of(context, lease, viewer);
  view.place = position_view_of(context, lease, outlook, viewer);
  return json::to_json(view);
}

// Returns the queue without its waiting claims.
protocol::Queue queue_without_claims(const Context& context, const Viewer& viewer) {
  const lease::LeaseManager& leases = context.leases;
  protocol::Queue queue;
  queue.simulated = is_simulated(context);
  queue.pending_claimers = static_cast<std::int64_t>(leases.waiting_claim_count());
  for (const auto& [gpu, outside] : leases.gpus().unleased_processes()) {
    for (const lease::ObservedProcess& process : outside) {
      if (process.attribution != lease::ObservedProcess::Attribution::outsider) continue;
      queue.squatters.push_back(unleased_process_of(context, gpu, process, viewer));
    }
  }
  std::ranges::sort(queue.squatters, {}, [](const protocol::UnleasedProcess& one) {
    return std::pair(one.index, one.pid);
  });
  std::vector<DeviceId> all;
  for (const auto& [gpu, slot] : leases.gpus().gpus()) all.push_back(gpu);
  queue.withheld = withheld_gpus_of(context, all);
  queue.notes = leases.notes();
  return queue;
}

bool has_unleased_process(const lease::GpuPool& gpus, uid_t uid) {
  return std::ranges::any_of(gpus.unleased_processes(), [&](const auto& one) {
    return std::ranges::count(one.second, uid, &lease::ObservedProcess::uid) > 0;
  });
}

std::string render_page(const Context& context, const Viewer& viewer, const std::string& rows) {
  std::string text = json::to_json(queue_without_claims(context, viewer));
  constexpr std::string_view kNone = "\"waiting\":[";
  return text.insert(text.find(kNone) + kNone.size(), rows);
}

}  // namespace

void QueueRenderer::render(const Viewer& viewer, OnRendered told) {
  if (context_.leases.waiting_claim_count() <= kMaxUncachedClaims) {
    const auto look = take_snapshot();
    std::string rows;
    for (const Row& row : look->rows) {
      if (!rows.empty()) rows += ',';
      rows += row_text(context_, *context_.leases.find(row.lease), row.position, viewer);
    }
    return told(std::make_shared<const std::string>(render_page(context_, viewer, rows)));
  }
  if (!newest_ || context_.loop.now() - newest_->at >= kPageLifetime) newest_ = take_snapshot();
  const auto [found, is_new] = newest_->pages.try_emplace(key_of(*newest_, viewer));
  Page& page = found->second;
  if (page.text) return told(page.text);
  page.callbacks.push_back(std::move(told));
  if (!is_new) return;
  page.viewer = viewer;
  jobs_.push_back({newest_, &page, {}});
  if (jobs_.size() == 1) run_job();
}

std::shared_ptr<QueueRenderer::QueueSnapshot> QueueRenderer::take_snapshot() const {
  auto look = std::make_shared<QueueSnapshot>();
  look->at = context_.loop.now();
  for (lease::QueueEntry& one : context_.leases.queue_entries(kMaxShownClaims)) {
    const lease::Lease* lease = context_.leases.find(one.lease);
    if (lease == nullptr || lease->state != lease::LeaseState::waiting) continue;
    look->rows.push_back({std::move(one.lease), lease->uid, one.queue_position, {}, {}});
  }
  return look;
}

std::string QueueRenderer::key_of(const QueueSnapshot& look, const Viewer& viewer) const {
  if (!viewer.is_local()) return "tcp";
  if (viewer.admin) return "admin";
  const bool waits = std::ranges::count(look.rows, *viewer.uid, &Row::uid) > 0;
  const bool his_own = waits || has_unleased_process(context_.leases.gpus(), *viewer.uid);
  return his_own ? std::to_string(*viewer.uid) : "local";
}

// For viewers other than its owner a row is rendered once, and then shared.
void QueueRenderer::add_row(Row& row, const Viewer& viewer, std::string& rows) const {
  const lease::Lease* lease = context_.leases.find(row.lease);
  // The lease may have changed since the look.
  if (lease == nullptr || lease->state != lease::LeaseState::waiting) return;
  if (!rows.empty()) rows += ',';
  if (viewer.is_owner_or_admin(row.uid)) {
    rows += row_text(context_, *lease, row.position, viewer);
    return;
  }
  std::string& shared = viewer.is_local() ? row.for_local : row.for_tcp;
  if (shared.empty()) {
    const Viewer stranger{viewer.is_local() ? std::optional(static_cast<uid_t>(-1)) : std::nullopt};
    shared = row_text(context_, *lease, row.position, stranger);
  }
  rows += shared;
}

void QueueRenderer::run_job() {
  RenderJob& job = jobs_.front();
  auto& rows = job.snapshot->rows;
  const std::size_t end = std::min(job.next + kRowsPerTurn, rows.size());
  for (; job.next < end; ++job.next) add_row(rows[job.next], job.page->viewer, job.rows);
  if (job.next == rows.size()) {
    const RenderJob done = std::move(job);
    jobs_.pop_front();
    finish_job(done);
  }
  if (jobs_.empty()) return;
  context_.loop.post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->run_job();
  });
}

void QueueRenderer::finish_job(const RenderJob& job) {
  Page& page = *job.page;
  page.text = std::make_shared<const std::string>(render_page(context_, page.viewer, job.rows));
  for (const OnRendered& told : std::exchange(page.callbacks, {})) told(page.text);
}

}  // namespace gpuyard::api
