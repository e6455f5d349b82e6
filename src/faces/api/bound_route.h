// The route table's other half: a handler for each route of src/faces/protocol/routes.h. Matching,
// authorisation, validation, rendering and the OpenAPI text work on its rows.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/json_reader.h"
#include "base/parameters.h"
#include "base/requester.h"
#include "core/control/audit.h"
#include "faces/api/principal.h"
#include "faces/api/responder.h"
#include "faces/protocol/route.h"
#include "io/http/message.h"

namespace gpuyard::api {

struct Context;  // see context.h
template <class Api>
Api& api_of(Context&);

// The changes that a handler reports for the audit.
struct ReportedActions {
  std::vector<control::AuditedAction> actions = {};
  bool reported = false;  // false: the action is the method and path of the request
};

// The parts of a call besides its route.
struct RouteCall {
  Principal principal;
  NamedValues parameters;
  std::string body;
  std::string request_id = {};  // in logs and in the audit
  TimePoint received = {};
  http::Peer peer = {};
  // The refusal of a caller whose scope is too low, unless a lease of the GPUs makes up for it:
  // RouteInfo::for_holders.
  std::optional<Error> scope_error = {};
  std::string accept = {};  // the Accept field, for routes with also_produces
  std::shared_ptr<ReportedActions> reported_actions = {};  // null: nothing is recorded

  // Report changes, before the call is answered: each is a line in the audit. Without a report, a
  // success of a route that is_audited() has a line with its method and path.
  void report_action(const std::string& action) const;  // concerns no GPU
  // A line for each GPU; no GPU: nothing was changed.
  void report_action(const std::string& action, const std::vector<DeviceId>& gpus,
                     bool forced = false) const;
  void report_no_change() const { report_action("", {}); }
};

// Returns the quota group whose share of the daemon's queues a client uses, and whose refusals
// include its own. A local user can use every address of the loopback network, which is therefore
// one group.
std::string quota_group_of(const http::Peer&);

// Returns the quota group whose share of the daemon's queues the call uses.
inline Requester requester_of(const RouteCall& call) {
  return {quota_group_of(call.peer), call.principal.scope >= Scope::admin};
}

// A row of the route table with its handler. Thread of `call`: io.
struct BoundRoute {
  protocol::RouteInfo info;
  const json::Shape* parameters = nullptr;
  const json::Shape* body = nullptr;    // null where there is no body
  const json::Shape* answer = nullptr;  // null for an answer that is not JSON
  // Decodes strictly; null for an answer that is not JSON.
  Result<void> (*decode)(std::string_view answer) = nullptr;
  std::function<void(Context&, const protocol::RouteInfo&, const RouteCall&, http::Reply)> call =
      {};
};

// Reads a call into new records of these shapes. A body without a shape is ignored. Errc::invalid
// for an unknown or malformed field.
Result<void> read_call(const RouteCall&, const json::Shape& of_parameters, void* parameters,
                       const json::Shape* of_body, void* body);

// `handler` takes the struct of its family (context.h), the call if it needs to know the caller,
// the parameters, the body if the route has one, and the responder.
template <class Api, class Params, class Answer, class Body, class Handler>
BoundRoute bind(const protocol::Route<Params, Answer, Body>& route, Handler handler) {
  constexpr bool kHasBody = !std::is_same_v<Body, protocol::NoBody>;
  BoundRoute bound{.info = route, .parameters = &json::shape_of<Params>};
  if constexpr (kHasBody) bound.body = &json::shape_of<Body>;
  if constexpr (!std::is_same_v<Answer, protocol::Text>) {
    bound.answer = &json::shape_of<Answer>;
    bound.decode = [](std::string_view text) -> Result<void> {
      Answer answer{};
      return json::read(text, json::shape_of<Answer>, &answer, json::UnknownFields::refuse);
    };
  }
  bound.call = [handler, of_body = bound.body](Context& context, const protocol::RouteInfo& info,
                                               const RouteCall& call, http::Reply reply) {
    Params parameters{};
    Body body{};
    const Responder<Answer> respond(info, std::move(reply));
    const auto read = read_call(call, json::shape_of<Params>, &parameters, of_body, &body);
    if (!read) return respond(read.error());
    if constexpr (kHasBody) {
      handler(api_of<Api>(context), call, parameters, body, respond);
    } else if constexpr (std::is_invocable_v<Handler, Api&, const RouteCall&, const Params&,
                                             const Responder<Answer>&>) {
      handler(api_of<Api>(context), call, parameters, respond);
    } else {
      handler(api_of<Api>(context), parameters, respond);
    }
  };
  return bound;
}

template <class Params, class Answer, class Body, class Api, class... Rest>
BoundRoute bind(const protocol::Route<Params, Answer, Body>& route,
                void (*handler)(Api&, Rest...)) {
  return bind<Api>(route, handler);
}

}  // namespace gpuyard::api
