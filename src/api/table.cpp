#include "api/table.h"

#include <algorithm>
#include <iterator>

#include "api/handlers.h"
#include "base/json_writer.h"

namespace gpuyard::api {

namespace {

// A daemon may keep no leases, as when it shows a recording.
std::vector<BoundRoute> of_leases(std::vector<BoundRoute> routes) {
  for (BoundRoute& route : routes) {
    route.call = [call = std::move(route.call)](Context& context, const protocol::RouteInfo& info,
                                                const Asked& asked, http::Reply reply) {
      if (context.leases != nullptr) return call(context, info, asked, std::move(reply));
      reply(render_error(info, {Errc::unavailable, "this daemon hands out no GPUs"}));
    };
  }
  return routes;
}

}  // namespace

const std::vector<BoundRoute>& table() {
  static const std::vector<BoundRoute> routes = [] {
    std::vector<BoundRoute> all;
    const auto add = [&](std::vector<BoundRoute> some) {
      std::ranges::move(some, std::back_inserter(all));
    };
    add(device_routes());
    add(history_routes());
    add(driver_routes());
    add(snapshot_routes());
    add(event_routes());
    add(power_stream_routes());
    add(energy_routes());
    add(control_routes());
    add(of_leases(lease_list_routes()));
    add(of_leases(lease_routes()));
    add(of_leases(queue_routes()));
    add(usage_routes());
    add(of_leases(cordon_routes()));
    add(alert_routes());
    add(node_routes());
    add(openapi_routes());
    add(docs_routes());
    return all;
  }();
  return routes;
}

http::Response render_error(const protocol::RouteInfo& route, const Error& error) {
  if (route.errors == protocol::ErrorShape::standard) return http::error_response(error);
  std::string body = R"({"detail":)";
  json::put_string(body, error.message);
  body += '}';
  return {http_status_of(error.code), "application/json", std::move(body)};
}

}  // namespace gpuyard::api
