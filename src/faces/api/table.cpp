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

void refuse(const protocol::RouteInfo& route, http::Reply& reply, const Error& error) {
  reply(render_error(route, error));
}

void reply_json(const protocol::RouteInfo& route, http::Reply& reply, int status,
                const json::Shape& shape, const void* answer) {
  std::string body;
  json::put(body, shape, answer);
  reply(http::Response(status, std::string(route.produces), std::move(body)));
}

Result<void> read_asked(const Asked& asked, const json::Shape& of_parameters, void* parameters,
                        const json::Shape* of_body, void* body) {
  if (auto read = read_parameters(asked.parameters, of_parameters, parameters); !read) return read;
  if (of_body == nullptr) return {};
  const std::string_view text = asked.body.empty() ? "{}" : std::string_view(asked.body);
  auto read = json::read(text, *of_body, body, json::UnknownFields::refuse);
  if (!read) return std::move(read).error().in("body");
  return {};
}

}  // namespace gpuyard::api
