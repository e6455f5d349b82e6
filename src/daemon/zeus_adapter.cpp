#include "daemon/zeus_adapter.h"

#include <utility>

#include <fmt/format.h>

#include "daemon/descriptor_budget.h"
#include "daemon/serve.h"

namespace gpuyard::daemon {
namespace {

http::Limits zeus_limits(const config::Config& config) {
  http::Limits limits = limits_of(config, descriptor_limit());
  limits.heartbeat_interval = zeus::kHeartbeatInterval;
  return limits;
}

// An error of the whole order is an error of each GPU. A reset of a setting that nobody has set is
// no error to clients of zeusd: they begin with it.
std::vector<zeus::GpuOutcome> outcomes_of(
    const zeus::SettingOrder& order, const Result<control::SettingController::Changes>& changes) {
  std::vector<zeus::GpuOutcome> outcomes;
  for (const DeviceInfo& gpu : order.gpus) {
    outcomes.push_back({gpu.index, changes ? Result<void>() : Result<void>(changes.error())});
    if (!changes) continue;
    for (const control::ChangeResult& change : *changes) {
      if (change.gpu != gpu.id || !change.error) continue;
      const bool resets = !order.setting;
      if (resets && change.error->code == Errc::not_found) continue;
      outcomes.back().result = *change.error;
    }
  }
  return outcomes;
}

}  // namespace

ZeusAdapter::ZeusAdapter(http::IoLoop& loop, Worker& query, telemetry::Telemetry& telemetry,
                         control::SettingController& control, const api::Authority& authority,
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
          zeus_limits(config)) {}

void ZeusAdapter::listen(ListenerOpener& listeners) {
  server_.allow_hosts(config_.server.allowed_hosts);
  server_.set_process_filter([](const http::Request&) { return false; });
  server_.set_quota_policy([this](uid_t uid) { return uids_.owner_of(uid); });
  const auto for_zeus = [](Result<std::string> bound_address) {
    if (bound_address) *bound_address += " for Zeus";
    return bound_address;
  };
  for (const std::string& address : config_.zeus.listen) {
    listeners.add("zeus.listen " + address, [this, address, for_zeus] {
      return for_zeus(listen_on_address(server_, address));
    });
  }
  if (config_.zeus.socket.empty()) return;
  listeners.add("zeus.socket " + config_.zeus.socket, [this, for_zeus] {
    return for_zeus(listen_on_socket(server_, config_.zeus.socket, "the directory of zeus.socket"));
  });
}

void ZeusAdapter::stop(Duration grace, std::function<void()> on_done) {
  server_.shutdown(grace, std::move(on_done));
}

void ZeusAdapter::read_fresh(ProbeSet probes, std::function<void(const Snapshot&)> on_done) {
  telemetry_.read_fresh(probes, [on_done = std::move(on_done)](const telemetry::SnapshotPtr& read) {
    on_done(*read);
  });
}

Subscription ZeusAdapter::subscribe_power(const DeviceId& id, Duration period,
                                          std::function<void(const Reading&)> on_reading) {
  return telemetry_.subscribe_power(id, period, std::move(on_reading));
}

Result<void> ZeusAdapter::check_enabled() const {
  if (control_.policy().enabled) return {};
  return Error{
      Errc::denied,
      "control is disabled; to allow changes, set [control] enabled = true in the configuration"};
}

// The same permissions as on the API's own socket.
Result<void> ZeusAdapter::check_access(const http::Request& request) {
  protocol::RouteInfo route;
  route.method = http::name_of(request.method);
  route.pattern = request.path;
  route.scope = protocol::Scope::control;
  const api::Principal principal = api::principal_of(request.peer, authority_);
  auto permitted = api::authorise(principal, route, authority_);
  if (!permitted) {
    control::ChangeRequester requester{principal.name(), false, std::to_string(request.id),
                                       request.received_at};
    requester.over_tcp = !principal.uid;
    if (principal.uid)
      requester.quota_owner = fmt::format("uid {}", uids_.owner_of(*principal.uid));
    control_.record_refusal(requester, fmt::format("{} {}", route.method, route.pattern),
                            permitted.error());
  }
  return permitted;
}

// Refuses a value beside another owner's, even if both could apply: zeusd's clients assume that
// their value is in force. A later owner may still ask for less by the API.
void ZeusAdapter::submit(zeus::SettingOrder order,
                         std::function<void(const std::vector<zeus::GpuOutcome>&)> on_done) {
  control::ChangeRequest request;
  request.requester = {fmt::format("zeus:{}", order.uid), false, std::to_string(order.request),
                       order.received};
  request.requester.quota_owner = fmt::format("uid {}", uids_.owner_of(order.uid));
  request.requester.member = true;  // see check_access()
  for (const DeviceInfo& gpu : order.gpus) request.gpus.push_back(gpu.id);
  request.exclusive = true;
  if (order.setting) {
    request.action = control::SetValue{*order.setting};
  } else {
    request.action = control::Restore{order.kind};
  }
  if (!order.wait) return on_done(outcomes_of(order, control_.submit_async(request)));
  control_.submit(request, [order = std::move(order), on_done = std::move(on_done)](
                               const Result<control::SettingController::Changes>& changes) {
    on_done(outcomes_of(order, changes));
  });
}

}  // namespace gpuyard::daemon
