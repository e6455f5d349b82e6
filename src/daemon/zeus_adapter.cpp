#include "daemon/zeus_adapter.h"

#include <utility>

#include <fmt/format.h>

#include "daemon/serve.h"

namespace gpuyard::daemon {
namespace {

http::Limits limits(const config::Config& config) {
  http::Limits limits = limits_of(config, descriptor_limit());
  limits.heartbeat = zeus::kHeartbeat;
  return limits;
}

// An error of the whole order is an error of each GPU. A reset of what neither this user nor
// anybody else has set is no error to clients of zeusd: they begin with it.
std::vector<zeus::Outcome> outcomes_of(const zeus::Order& order,
                                       const Result<control::Control::Changes>& changes) {
  std::vector<zeus::Outcome> outcomes;
  for (const DeviceInfo& gpu : order.gpus) {
    outcomes.push_back({gpu.index, changes ? Result<void>() : Result<void>(changes.error())});
    if (!changes) continue;
    for (const control::Change& change : *changes) {
      if (change.gpu != gpu.id || !change.error) continue;
      const bool resets = !order.setting;
      if (resets && change.error->code == Errc::not_found) continue;
      outcomes.back().done = *change.error;
    }
  }
  return outcomes;
}

}  // namespace

ZeusAdapter::ZeusAdapter(http::IoLoop& loop, Worker& query, telemetry::Telemetry& telemetry,
                         control::Control& control, const api::Authority& authority,
                         const config::Config& config, const processes::SubordinateUids& uids,
                         const std::string& version)
    : telemetry_(telemetry),
      control_(control),
      authority_(authority),
      config_(config),
      uids_(uids),
      cpus_(loop, query, config.zeus.rapl_root),
      coarse_cpus_(loop, cpus_),
      facade_({loop, *this, *this, cpus_, coarse_cpus_, config.zeus.cpu_over_tcp, version}),
      server_(
          loop,
          [this](http::Request request, http::Reply reply) {
            facade_.handle(std::move(request), std::move(reply));
          },
          limits(config)) {}

void ZeusAdapter::listen(Doors& doors) {
  server_.allow_hosts(config_.server.allowed_hosts);
  server_.ask_process_of([](const http::Request&) { return false; });
  server_.share_by([this](uid_t uid) { return uids_.person(uid); });
  const auto for_zeus = [](Result<std::string> place) {
    if (place) *place += " for Zeus";
    return place;
  };
  for (const std::string& address : config_.zeus.listen) {
    doors.add("zeus.listen " + address,
              [this, address, for_zeus] { return for_zeus(listen_at(server_, address)); });
  }
  if (config_.zeus.socket.empty()) return;
  doors.add("zeus.socket " + config_.zeus.socket, [this, for_zeus] {
    return for_zeus(listen_on_socket(server_, config_.zeus.socket, "the directory of zeus.socket"));
  });
}

void ZeusAdapter::stop(Duration grace, std::function<void()> done) {
  server_.shutdown(grace, std::move(done));
}

void ZeusAdapter::fresh(ProbeSet probes, std::function<void(const Snapshot&)> done) {
  telemetry_.fresh(probes,
                   [done = std::move(done)](const telemetry::SnapshotPtr& read) { done(*read); });
}

Subscription ZeusAdapter::listen_power(const DeviceId& id, Duration period,
                                       std::function<void(const Reading&)> heard) {
  return telemetry_.listen_power(id, period, std::move(heard));
}

Result<void> ZeusAdapter::enabled() const {
  if (control_.policy().enabled) return {};
  return Error{
      Errc::denied,
      "control is disabled; to allow changes, set [control] enabled = true in the configuration"};
}

// The same permissions as on the API's own socket.
Result<void> ZeusAdapter::permits(const http::Request& request) {
  protocol::RouteInfo route;
  route.method = http::name_of(request.method);
  route.pattern = request.path;
  route.scope = protocol::Scope::control;
  const api::Principal principal = api::principal_of(request.peer, authority_);
  auto permitted = api::authorise(principal, route, authority_);
  if (!permitted) {
    control::Asker asker{principal.name(), false, std::to_string(request.id), request.received};
    asker.over_tcp = !principal.uid;
    if (principal.uid) asker.person = fmt::format("uid {}", uids_.person(*principal.uid));
    control_.note_refusal(asker, fmt::format("{} {}", route.method, route.pattern),
                          permitted.error());
  }
  return permitted;
}

// Refused beside another owner's value, even where both could apply: zeusd's clients take what they
// set for what is in force. A later owner may still ask for less by the API.
void ZeusAdapter::order(zeus::Order order,
                        std::function<void(const std::vector<zeus::Outcome>&)> done) {
  control::Request request;
  request.asker = {fmt::format("zeus:{}", order.uid), false, std::to_string(order.request),
                   order.received};
  request.asker.person = fmt::format("uid {}", uids_.person(order.uid));
  request.asker.member = true;  // see permits()
  for (const DeviceInfo& gpu : order.gpus) request.gpus.push_back(gpu.id);
  request.exclusive = true;
  if (order.setting) {
    request.action = control::Put{*order.setting};
  } else {
    request.action = control::Restore{order.kind};
  }
  if (!order.wait) return done(outcomes_of(order, control_.send(request)));
  control_.ask(request, [order = std::move(order),
                         done = std::move(done)](const Result<control::Control::Changes>& changes) {
    done(outcomes_of(order, changes));
  });
}

}  // namespace gpuyard::daemon
