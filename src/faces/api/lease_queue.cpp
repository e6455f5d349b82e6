// Who has which GPU, who waits for one, and what is not handed out at all.
#include <algorithm>

#include "api/gpu_names.h"
#include "api/handlers.h"
#include "api/queue_text.h"

namespace gpuyard::api {
namespace {

// Once it is done, what is true of those GPUs then.
lease::Leases::Done answer_with(Context& context, std::vector<DeviceId> gpus,
                                Responder<protocol::Cordoned> respond) {
  const auto shared = std::make_shared<Responder<protocol::Cordoned>>(std::move(respond));
  return [&context, gpus = std::move(gpus), shared](const Result<void>& done) {
    if (!done) return (*shared)(done.error());
    (*shared)(protocol::Cordoned{1, simulated(context), withheld_among(context, gpus)});
  };
}

void get_leases(Context& context, const Asked& asked, const NoParams&,
                Responder<protocol::Leases> respond) {
  auto live = context.leases->with_gpus();
  std::ranges::sort(live, {}, [](const lease::Lease* lease) { return lease->fence; });
  protocol::Leases all;
  all.simulated = simulated(context);
  const Viewer viewer = viewer_of(asked.principal);
  for (const lease::Lease* lease : live) all.leases.push_back(view_of(context, *lease, viewer));
  respond(std::move(all));
}

void get_queue(Context& context, const Asked& asked, const NoParams&,
               Responder<protocol::Queue> respond) {
  if (!context.queue_text) context.queue_text = std::make_shared<QueueText>(context);
  // Shared, because a std::function must be copyable; answered once all the same.
  const auto shared = std::make_shared<Responder<protocol::Queue>>(std::move(respond));
  context.queue_text->ask(viewer_of(asked.principal),
                          [shared](const QueueText::Text& text) { shared->rendered(text); });
}

void get_load(Context& context, const NoParams&, Responder<protocol::Load> respond) {
  respond(load_of(*context.leases));
}

void cordon_gpus(Context& context, const Asked& asked, const protocol::ManagedGpus& named,
                 const protocol::CordonWish& body, Responder<protocol::Cordoned> respond) {
  if (body.reason.empty()) {
    return respond(Error{Errc::invalid, "body: /reason: say why; everybody who waits is told"});
  }
  auto fits = protocol::check_length("body: /reason", body.reason, protocol::kLongestReason);
  if (!fits) return respond(std::move(fits).error());
  const auto gpus = ids_named(*context.telemetry.latest(), named.id);
  if (!gpus) return respond(gpus.error());
  context.leases->cordon(caller_of(asked), *gpus, body.reason,
                         answer_with(context, *gpus, std::move(respond)));
}

void uncordon_gpus(Context& context, const Asked& asked, const protocol::ManagedGpus& named,
                   Responder<protocol::Cordoned> respond) {
  const auto gpus = ids_named(*context.telemetry.latest(), named.id);
  if (!gpus) return respond(gpus.error());
  context.leases->uncordon(caller_of(asked), *gpus,
                           answer_with(context, *gpus, std::move(respond)));
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
  };
}

}  // namespace gpuyard::api
