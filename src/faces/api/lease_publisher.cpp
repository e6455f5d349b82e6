#include "faces/api/lease_publisher.h"

#include "base/json_writer.h"
#include "faces/api/lease_view.h"

namespace gpuyard::api {

void LeasePublisher::start() {
  timer_ = context_.loop.call_after(kLoadInterval, [this] { publish_load(); });
}

void LeasePublisher::on_change(const lease::Lease& now) {
  ++context_.lease_changes;
  // Published for no GPU in particular, so that listeners to any GPU receive each grant and
  // release.
  context_.events.publish(protocol::kLeaseEvent, json::to_json(view_of(context_, now)));
}

void LeasePublisher::publish_load() {
  start();
  if (context_.events.listeners() == 0) return;
  if (!context_.leases.has_loaded()) return;  // it would call every GPU free
  context_.events.publish_state(protocol::kLoadEvent, json::to_json(load_of(context_.leases)));
}

}  // namespace gpuyard::api
