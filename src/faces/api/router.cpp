#include "faces/api/router.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "base/json_writer.h"
#include "base/text.h"
#include "faces/api/context.h"
#include "faces/api/kept.h"
#include "faces/api/lease_view.h"

namespace gpuyard::api {

const std::vector<BoundRoute>& table() {
  static const std::vector<BoundRoute> routes = [] {
    std::vector<BoundRoute> all;
    const auto add = [&](std::vector<BoundRoute> some) {
      std::ranges::move(some, std::back_inserter(all));
    };
    add(device_routes());
    add(history_routes());
    add(past_routes());
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
    add(slurm_routes());
    add(node_routes());
    add(openapi_routes());
    add(page_routes());
    return all;
  }();
  return routes;
}

std::string party_of(const http::Peer& peer) {
  constexpr std::string_view kLoopback = "this machine over TCP";
  // "::" is the network of ::1.
  const bool is_loopback = peer.party.starts_with("127.") || peer.party == "::";
  return is_loopback ? std::string(kLoopback) : peer.party;
}

http::Response render_error(const protocol::RouteInfo& route, const Error& error) {
  if (route.errors == protocol::ErrorShape::standard) return http::error_response(error);
  std::string body = R"({"detail":)";
  json::put_string(body, error.text());
  body += '}';
  http::Response response{http_status_of(error.code), "application/json", std::move(body)};
  if (response.status == 503) {
    response.headers.push_back({"Retry-After", std::string(http::kRetryAfterSeconds)});
  }
  return response;
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
std::string id_of(const http::Request& request) {
  constexpr std::size_t kMost = 64;
  const std::string_view given = request.header("X-Request-Id");
  const bool plain = std::ranges::all_of(given, [](char c) { return c > ' ' && c <= '~'; });
  return !given.empty() && given.size() <= kMost && plain ? std::string(given)
                                                          : std::to_string(request.id);
}

// Puts a refused attempt to change something into the audit.
void note_refusal(Context& context, const Principal& principal, const http::Request& request,
                  const std::string& request_id, const protocol::RouteInfo& route,
                  const Error& why) {
  if (route.scope < protocol::Scope::control) return;
  const auto asker = asker_of(context, principal, false, request_id, request.received);
  context.control.note_refusal(asker, fmt::format("{} {}", route.method, request.path), why);
}

// Writes the changes of a call into the audit, right before its answer is sent.
class AuditedCall {
 public:
  AuditedCall(Context& context, const protocol::RouteInfo& route, const http::Request& request,
              const Asked& asked)
      : context_(context),
        route_(route),
        path_(request.path),
        principal_(asked.principal),
        request_id_(asked.request_id),
        received_(asked.received),
        deeds_(asked.deeds) {}

  void answered(int status) const {
    constexpr int kRedirect = 300;
    const bool unsaid = !deeds_->said && status < kRedirect && route_.is_audited();
    if (deeds_->done.empty() && !unsaid) return;
    const bool admin = principal_.scope >= protocol::Scope::admin;
    const auto asker = asker_of(context_, principal_, admin, request_id_, received_);
    if (unsaid) context_.control.note_done(asker, fmt::format("{} {}", route_.method, path_));
    for (control::Deed& deed : deeds_->done) {
      if (const DeviceInfo* info = info_of(context_, deed.gpu)) deed.index = info->index;
      context_.control.note_done(asker, deed);
    }
  }

 private:
  Context& context_;
  const protocol::RouteInfo& route_;
  std::string path_;
  Principal principal_;
  std::string request_id_;
  TimePoint received_;
  std::shared_ptr<Deeds> deeds_;
};

http::Reply audited(AuditedCall call, http::Reply reply) {
  return http::Reply([call = std::move(call), reply = std::make_shared<http::Reply>(
                                                  std::move(reply))](http::Response response) {
    call.answered(response.status);
    (*reply)(std::move(response));
  });
}

http::Response not_found(const http::Request& request) {
  return http::error_response(
      {Errc::not_found,
       fmt::format("{} not found; see /openapi.json for all routes", request.path)});
}

// A browser that may not see a page is shown the one that takes a token.
http::Response to_login() {
  http::Response response(303, "", std::string());
  response.headers.push_back({"Location", "/login"});
  return response;
}

http::Response wrong_method(const http::Request& request, const std::string& allowed) {
  http::Response response =
      http::error_response(405, "method_not_allowed",
                           fmt::format("{} does not support {}; it supports {}", request.path,
                                       name_of(request.method), allowed));
  response.headers.push_back({"Allow", allowed});
  return response;
}

}  // namespace

void Asked::did(const std::string& action) const {
  if (!deeds) return;
  deeds->said = true;
  deeds->done.push_back({.action = action});
}

void Asked::did(const std::string& action, const std::vector<DeviceId>& gpus, bool forced) const {
  if (!deeds) return;
  deeds->said = true;
  for (const DeviceId& gpu : gpus) deeds->done.push_back({action, gpu, {}, forced});
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
      table(), [&](const BoundRoute& route) { return route.info.pattern == request.path; });
  for (const BoundRoute& route : table()) {
    if (literal && route.info.pattern != request.path) continue;
    auto parameters = match(route.info.pattern, request.path);
    if (!parameters) continue;
    if (route.info.method != name_of(request.method)) {
      allowed += allowed.empty() ? "" : ", ";
      allowed += route.info.method;
      continue;
    }
    const auto call = std::make_shared<Admission::Call>(std::move(request), std::move(reply));
    call->request_id = id_of(call->request);
    return admission_.ask(call, [this, &route, call, parameters](Principal principal) {
      this->call(route, *parameters, *call, std::move(principal));
    });
  }
  reply(allowed.empty() ? not_found(request) : wrong_method(request, allowed));
}

void Router::call(const BoundRoute& route, NamedValues parameters, Admission::Call& call,
                  Principal principal) {
  http::Request& request = call.request;
  const auto user = principal.uid ? context_.user_name(*principal.uid) : std::nullopt;
  const auto permitted = authorise(principal, route.info, authority_, user.value_or(""));
  const bool may_hold = route.info.for_holders && principal.scope >= protocol::Scope::lease;
  if (!permitted && !may_hold) {
    note_refusal(context_, principal, request, call.request_id, route.info, permitted.error());
    if (accepts_html(route.info, request)) return call.reply(to_login());
    const bool token_would_help = principal.way == Way::tls && !principal.by_credential();
    return call.reply(token_would_help ? unauthenticated(permitted.error())
                                       : render_error(route.info, permitted.error()));
  }
  // Every answer of a simulated yard is marked, including those whose body has no field for it.
  if (simulated(context_)) {
    call.reply = http::with_field(std::move(call.reply), {"X-Gpuyard-Simulated", "true"});
  }
  if (auto later = not_read_yet(context_, route.info)) return call.reply(*std::move(later));
  if (!route.info.ignores_query) {
    parameters.insert(parameters.end(), request.query.begin(), request.query.end());
  }
  put_header_field(parameters, route.info, request);
  if (accepts_csv(request, route.info)) parameters.emplace_back("format", "csv");
  Asked asked{std::move(principal), std::move(parameters), std::move(request.body),
              call.request_id,      request.received,      std::move(request.peer)};
  if (!permitted) asked.unless_holder = permitted.error();
  if (route.info.method != "GET") {
    asked.deeds = std::make_shared<Deeds>();
    call.reply = audited(AuditedCall(context_, route.info, request, asked), std::move(call.reply));
  }
  if (!route.info.also_produces.empty()) asked.accept = request.header("Accept");
  route.call(context_, route.info, asked, std::move(call.reply));
}

}  // namespace gpuyard::api
