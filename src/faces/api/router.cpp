#include "faces/api/router.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "base/text.h"
#include "faces/api/bound_route.h"
#include "faces/api/lease_view.h"
#include "faces/api/responder.h"
#include "faces/api/stored_state.h"

namespace gpuyard::api {
namespace {

void put_header_field(NamedValues& parameters, const protocol::RouteInfo& route,
                      const http::Request& request) {
  const std::string_view value = request.header(route.header_field);
  if (!value.empty()) parameters.emplace_back(parameter_of_header(route.header_field), value);
}

// Returns whether Accept names CSV and not JSON, and the query has no format.
bool accepts_csv(const http::Request& request, const protocol::RouteInfo& route) {
  const std::string accepted = to_lower(request.header("Accept"));
  return !route.csv.empty() && accepted.find(route.csv) != std::string::npos &&
         accepted.find(route.produces) == std::string::npos &&
         std::ranges::find(request.query, "format", &NamedValues::value_type::first) ==
             request.query.end();
}

bool accepts_html(const protocol::RouteInfo& route, const http::Request& request) {
  return route.also_produces == "text/html" &&
         request.header("Accept").find(route.also_produces) != std::string_view::npos;
}

// Returns the client's id of the request, if that is short and plain; else our own number.
std::string request_id_of(const http::Request& request) {
  constexpr std::size_t kMaxIdLength = 64;
  const std::string_view given = request.header("X-Request-Id");
  const bool plain = std::ranges::all_of(given, [](char c) { return c > ' ' && c <= '~'; });
  return !given.empty() && given.size() <= kMaxIdLength && plain ? std::string(given)
                                                                 : std::to_string(request.id);
}

// Puts a refused attempt to change something into the audit.
void record_refusal(ControlApi& api, const Principal& principal, const http::Request& request,
                    const std::string& request_id, const protocol::RouteInfo& route,
                    const Error& why) {
  if (route.scope < protocol::Scope::control) return;
  const auto requester =
      control_requester_of(api.users, principal, false, request_id, request.received_at);
  api.control.record_refusal(requester, fmt::format("{} {}", route.method, request.path), why);
}

// Writes the changes of a call into the audit, right before its answer is sent.
class AuditedCall {
 public:
  AuditedCall(Context& context, const protocol::RouteInfo& route, const http::Request& request,
              const RouteCall& call)
      : control_(context.control),
        leases_(context.leases.facts),
        route_(route),
        path_(request.path),
        principal_(call.principal),
        request_id_(call.request_id),
        received_(call.received),
        reported_actions_(call.reported_actions) {}

  void on_response(int status) const {
    constexpr int kRedirect = 300;
    const bool is_unreported =
        !reported_actions_->reported && status < kRedirect && route_.is_audited();
    if (reported_actions_->actions.empty() && !is_unreported) return;
    const bool admin = principal_.scope >= protocol::Scope::admin;
    const auto requester =
        control_requester_of(control_.users, principal_, admin, request_id_, received_);
    if (is_unreported)
      control_.control.record_action(requester, fmt::format("{} {}", route_.method, path_));
    for (control::AuditedAction& action : reported_actions_->actions) {
      if (const DeviceInfo* info = info_of(leases_, action.gpu)) action.index = info->index;
      control_.control.record_action(requester, action);
    }
  }

 private:
  ControlApi& control_;
  const LeaseFacts& leases_;
  const protocol::RouteInfo& route_;
  std::string path_;
  Principal principal_;
  std::string request_id_;
  TimePoint received_;
  std::shared_ptr<ReportedActions> reported_actions_;
};

http::Reply audit_reply(AuditedCall call, http::Reply reply) {
  return http::Reply([call = std::move(call), reply = std::make_shared<http::Reply>(
                                                  std::move(reply))](http::Response response) {
    call.on_response(response.status);
    (*reply)(std::move(response));
  });
}

http::Response not_found_response(const http::Request& request) {
  return http::error_response(
      {Errc::not_found,
       fmt::format("{} not found; see /openapi.json for all routes", request.path)});
}

// A browser that may not see a page is shown the one that takes a token.
http::Response login_redirect() {
  http::Response response(303, "", std::string());
  response.headers.push_back({"Location", "/login"});
  return response;
}

http::Response wrong_method_response(const http::Request& request, const std::string& allowed) {
  http::Response response =
      http::error_response(405, "method_not_allowed",
                           fmt::format("{} does not support {}; it supports {}", request.path,
                                       name_of(request.method), allowed));
  response.headers.push_back({"Allow", allowed});
  return response;
}

}  // namespace

const std::vector<BoundRoute>& all_routes() {
  static const std::vector<BoundRoute> routes = [] {
    std::vector<BoundRoute> all;
    const auto add = [&](std::vector<BoundRoute> some) {
      std::ranges::move(some, std::back_inserter(all));
    };
    add(device_routes());
    add(history_routes());
    add(record_routes());
    add(driver_routes());
    add(snapshot_routes());
    add(event_routes());
    add(power_stream_routes());
    add(energy_routes());
    add(control_routes());
    add(lease_list_routes());
    add(lease_routes());
    add(queue_routes());
    add(usage_routes());
    add(cordon_routes());
    add(alert_routes());
    add(token_routes());
    add(brief_routes());
    add(verdict_routes());
    add(host_routes());
    add(slurm_routes());
    add(pod_routes());
    add(node_routes());
    add(openapi_routes());
    add(page_routes());
    return all;
  }();
  return routes;
}

std::string parameter_of_header(std::string_view field) {
  std::string name = to_lower(field);
  std::ranges::replace(name, '-', '_');
  return name;
}

std::optional<NamedValues> match(std::string_view pattern, std::string_view path) {
  NamedValues found;
  if (std::count(pattern.begin(), pattern.end(), '/') !=
      std::count(path.begin(), path.end(), '/')) {
    return std::nullopt;
  }
  while (!pattern.empty() || !path.empty()) {
    const std::string_view wanted = take_until('/', pattern);
    const std::string_view given = take_until('/', path);
    const bool named = wanted.size() > 2 && wanted.front() == '{' && wanted.back() == '}';
    if (named && !given.empty()) {
      found.emplace_back(wanted.substr(1, wanted.size() - 2), given);
    } else if (wanted != given) {
      return std::nullopt;
    }
  }
  return found;
}

void Router::handle(http::Request request, http::Reply reply) {
  std::string allowed;
  // A path that equals a route's pattern word for word does not match another route's {name}.
  const bool literal = std::ranges::any_of(
      all_routes(), [&](const BoundRoute& route) { return route.info.pattern == request.path; });
  for (const BoundRoute& route : all_routes()) {
    if (literal && route.info.pattern != request.path) continue;
    auto parameters = match(route.info.pattern, request.path);
    if (!parameters) continue;
    if (route.info.method != name_of(request.method)) {
      allowed += allowed.empty() ? "" : ", ";
      allowed += route.info.method;
      continue;
    }
    const auto call =
        std::make_shared<Authenticator::PendingCall>(std::move(request), std::move(reply));
    call->request_id = request_id_of(call->request);
    return authenticator_.authenticate(call, [this, &route, call, parameters](Principal principal) {
      this->call(route, *parameters, *call, std::move(principal));
    });
  }
  reply(allowed.empty() ? not_found_response(request) : wrong_method_response(request, allowed));
}

void Router::call(const BoundRoute& route, NamedValues parameters, Authenticator::PendingCall& call,
                  Principal principal) {
  http::Request& request = call.request;
  const auto user = principal.uid ? context_.users.name_of(*principal.uid) : std::nullopt;
  const auto permitted = authorise(principal, route.info, authority_, user.value_or(""));
  const bool may_hold = route.info.for_holders && principal.scope >= protocol::Scope::lease;
  if (!permitted && !may_hold) {
    record_refusal(context_.control, principal, request, call.request_id, route.info,
                   permitted.error());
    if (accepts_html(route.info, request)) return call.reply(login_redirect());
    const bool token_would_help =
        principal.transport == Transport::tls && !principal.has_credential();
    return call.reply(token_would_help ? unauthenticated_response(permitted.error())
                                       : render_error(route.info, permitted.error()));
  }
  // Every answer of a simulated machine is marked, including those whose body has no field for it.
  if (is_simulated(context_.rooms.telemetry)) {
    call.reply = http::with_field(std::move(call.reply), {"X-Gpuyard-Simulated", "true"});
  }
  const Rooms& rooms = context_.rooms;
  const StoredState stored{rooms.leases, rooms.tokens, rooms.alerts, rooms.control, rooms.energy};
  if (auto later = loading_response(stored, route.info)) return call.reply(*std::move(later));
  if (!route.info.ignores_query) {
    parameters.insert(parameters.end(), request.query.begin(), request.query.end());
  }
  put_header_field(parameters, route.info, request);
  if (accepts_csv(request, route.info)) parameters.emplace_back("format", "csv");
  RouteCall route_call{std::move(principal), std::move(parameters), std::move(request.body),
                       call.request_id,      request.received_at,   std::move(request.peer)};
  if (!permitted) route_call.scope_error = permitted.error();
  if (route.info.method != "GET") {
    route_call.reported_actions = std::make_shared<ReportedActions>();
    call.reply =
        audit_reply(AuditedCall(context_, route.info, request, route_call), std::move(call.reply));
  }
  if (!route.info.also_produces.empty()) route_call.accept = request.header("Accept");
  route.call(context_, route.info, route_call, std::move(call.reply));
}

}  // namespace gpuyard::api
