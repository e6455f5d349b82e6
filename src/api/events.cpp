// What happens, as a stream.
#include "api/handlers.h"
#include "http/event_stream.h"

namespace gpuyard::api {
namespace {

// A name that no GPU has is most likely a mistake; without a driver it may yet come true.
Result<void> check_names(const Snapshot& snapshot, std::string_view names) {
  if (!snapshot.driver.initialised) return {};
  while (!names.empty()) {
    const std::size_t comma = std::min(names.find(','), names.size());
    if (auto found = find_device(snapshot, names.substr(0, comma)); !found) {
      return std::move(found).error();
    }
    names.remove_prefix(std::min(comma + 1, names.size()));
  }
  return {};
}

}  // namespace

void get_events(Context& context, const protocol::EventsRequest& request, Responder<Text> respond) {
  const bool wants_oldest = request.since == protocol::kOldest;
  if (request.since && !wants_oldest && !protocol::parse_event_id(*request.since)) {
    return respond(Error{Errc::invalid, "parameter since must be an event's id or \"oldest\""});
  }
  if (auto known = check_names(*context.telemetry.latest(), request.gpus.value_or("")); !known) {
    return respond(std::move(known).error());
  }
  respond.as_is(http::event_stream(context.events.listen(request)));
}

}  // namespace gpuyard::api
