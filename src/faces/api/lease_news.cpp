#include "api/lease_news.h"

#include "api/lease_view.h"
#include "base/json_writer.h"

namespace gpuyard::api {

void LeaseNews::start() {
  timer_ = context_.loop->call_after(kLoadEvery, [this] { report(); });
}

void LeaseNews::on_change(const lease::Lease& now) {
  ++context_.lease_changes;
  // Of all GPUs or of none yet: whoever listens to one of them wants to know either way.
  context_.events.publish(protocol::kLeaseEvent, json::to_json(view_of(context_, now)));
}

void LeaseNews::report() {
  start();
  if (context_.events.listeners() == 0) return;
  context_.events.report(protocol::kLoadEvent, json::to_json(load_of(*context_.leases)));
}

}  // namespace gpuyard::api
