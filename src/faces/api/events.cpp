// What happens, as a stream.
#include <fmt/format.h>

#include "api/event_view.h"
#include "api/gpu_names.h"
#include "api/handlers.h"
#include "http/event_stream.h"

namespace gpuyard::api {
namespace {

void get_events(Context& context, const protocol::EventsRequest& request, Responder<Text> respond) {
  const bool wants_oldest = request.since == protocol::kOldest;
  if (request.since && !wants_oldest && !protocol::parse_event_id(*request.since)) {
    return respond(Error{Errc::invalid, "parameter since must be an event's id or \"oldest\""});
  }
  if (EventView::names_in(request.gpus.value_or("")).size() > EventView::kMostNames) {
    return respond(Error{Errc::invalid,
                         fmt::format("parameter gpus: at most {} of them", EventView::kMostNames)});
  }
  // A name that no GPU has is most likely a mistake; without a driver it may yet come true.
  const Snapshot& snapshot = *context.telemetry.latest();
  if (snapshot.driver.initialised) {
    const auto known = gpus_named(snapshot, request.gpus.value_or(""));
    if (!known) return respond(known.error());
  }
  respond.as_is(http::event_stream(context.events.listen(request)));
}

}  // namespace

std::vector<BoundRoute> event_routes() {
  return {bind(protocol::kEvents, &get_events)};
}

}  // namespace gpuyard::api
