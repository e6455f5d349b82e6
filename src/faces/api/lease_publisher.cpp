#include "faces/api/lease_publisher.h"

#include "base/json_writer.h"
#include "faces/api/lease_view.h"

namespace gpuyard::api {

void LeasePublisher::start() {
  timer_ = api_.loop.call_after(kLoadInterval, [this] { publish_load(); });
}

void LeasePublisher::on_change(const lease::Lease& now) {
  ++api_.changes;
  // Published for no GPU in particular, so that listeners to any GPU receive each grant and
  // release.
  events_.publish(protocol::kLeaseEvent, json::to_json(view_of(api_.facts, now)));
}

void LeasePublisher::publish_load() {
  start();
  if (events_.listeners() == 0) return;
  if (!api_.leases.has_loaded()) return;  // it would call every GPU free
  events_.publish_state(protocol::kLoadEvent, json::to_json(load_of(api_.leases)));
}

}  // namespace gpuyard::api
