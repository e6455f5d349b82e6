// The routes of the node: its driver, its metrics, and whether the daemon is alive and ready.
#include <algorithm>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/identifiers.h"
#include "core/andon/alert.h"
#include "core/andon/alert_severity.h"
#include "faces/api/bound_route.h"
#include "faces/api/context.h"
#include "faces/api/responder.h"
#include "faces/metrics/daemon_metrics.h"
#include "faces/metrics/prometheus.h"
#include "gpu/device/error.h"

namespace gpuyard::api {
namespace {

metrics::LeaseMetrics lease_figures(const lease::LeaseManager& leases) {
  metrics::LeaseMetrics figures;
  std::vector<const DeviceInfo*> gpus;
  for (const auto& [id, gpu] : leases.gpus().gpus()) gpus.push_back(&gpu.info);
  std::ranges::sort(gpus, {}, &DeviceInfo::index);
  for (const DeviceInfo* gpu : gpus) {
    figures.gpus.emplace_back(label_of(*gpu), leases.is_leased(gpu->id));
  }
  figures.held = leases.leases_with_gpus().size();
  figures.waiting = leases.waiting_claim_count();
  figures.grants = leases.last_fence();
  return figures;
}

// The `device` of an alert's series. A GPU that has no index of its own is named by its UUID.
std::optional<std::string> device_of(const andon::RuleEngine& engine, const andon::Alert& alert) {
  if (alert.gpu.empty()) return std::nullopt;
  const bool named = alert.index && !engine.is_index_reused(alert);
  return named ? std::to_string(*alert.index) : alert.gpu;
}

metrics::AlertMetrics alert_figures(const MetricsApi& api) {
  const andon::AlertService& alerts = api.alerts;
  metrics::AlertMetrics figures;
  for (const andon::Alert& alert : alerts.engine().firing_alerts()) {
    figures.firing.push_back({alert.rule, std::string(name_of(andon::level_of(alert.severity))),
                              alert.severity, device_of(alerts.engine(), alert),
                              alert.acknowledged.has_value(),
                              alerts.silences().is_silenced(alert)});
  }
  figures.pending = alerts.engine().pending_alerts(api.loop.now()).size();
  figures.rules = static_cast<std::size_t>(
      std::ranges::count(alerts.engine().rules(), true, &andon::Rule::enabled));
  figures.evaluation_time = &api.alert_cost;
  for (const protocol::Sink& sink : api.alert_sinks.sinks()) {
    figures.sinks.push_back({sink.name, sink.kind, static_cast<std::size_t>(sink.queued),
                             sink.delivered_total, sink.retries_total, sink.dead_letters_total});
  }
  return figures;
}

std::string render_metrics(const MetricsApi& api, metrics::Format format) {
  const metrics::LeaseMetrics leases = lease_figures(api.leases);
  const metrics::AlertMetrics alerts = alert_figures(api);
  metrics::DaemonMetrics process{api.daemon.version, &api.loop_lag, &leases, &alerts};
  process.tls = api.daemon.tls;
  metrics::EventMetrics events;
  if (api.event_drops != nullptr) {
    events = {*api.event_drops, api.alerts.engine().dropped_events()};
    process.events = &events;
  }
  if (api.selection.dialect != metrics::Dialect::gpuyard) process.hostname = host_name();
  return metrics::render(*api.telemetry.latest(), process, api.prefix, format, api.selection);
}

void get_driver(NodeApi& api, const NoParams&, const Responder<protocol::DriverInfo>& respond) {
  const DriverState& driver = api.telemetry.latest()->driver;
  if (!driver.initialised) return respond(Error{Errc::unavailable, driver.why});
  respond(protocol::driver_info_of(driver.info));
}

void get_metrics(MetricsApi& api, const RouteCall& call, const NoParams&,
                 const Responder<Text>& respond) {
  // Both numbers only grow, so their sum changes with either.
  const std::uint64_t state = api.telemetry.latest()->generation + api.lease_changes;
  const metrics::Format format = metrics::negotiate_format(call.accept);
  RenderCache<>& rendered = format == metrics::Format::text ? api.text : api.openmetrics;
  const auto& body = rendered.get(state, [&] { return render_metrics(api, format); });
  http::Response response(200, std::string(metrics::content_type_of(format)), body);
  response.headers.push_back({"Vary", "Accept"});
  respond.send(std::move(response));
}

void get_health(NodeApi& api, const RouteCall& call, const NoParams&,
                const Responder<protocol::Health>& respond) {
  respond(protocol::Health{"ok", can_see_machine(call.principal) ? api.daemon.version : ""});
}

std::vector<std::string> notes_of(const NodeApi& api) {
  std::vector<std::string> notes;
  if (api.daemon.tls != nullptr && !api.daemon.tls->reload_error.empty()) {
    notes.push_back(api.daemon.tls->reload_error);
  }
  for (std::string& note : api.control.notes()) notes.push_back(std::move(note));
  for (const protocol::Sink& sink : api.alert_sinks.sinks()) {
    if (!sink.closed.value_or(false)) continue;
    notes.push_back(
        fmt::format("alert sink {} is closed: {}", sink.name, sink.last_error.value_or("")));
  }
  if (const std::string why = api.marks_error(); !why.empty()) {
    notes.push_back(
        fmt::format("gpuyard-marks is not available ({}): the lease of another user's process is "
                    "found only by its parents; see `systemctl status gpuyard-marks.socket`",
                    why));
  }
  if (api.closed_listeners == nullptr) return notes;
  for (const auto& [listener, why] : *api.closed_listeners) {
    notes.push_back(fmt::format("{} is closed: {}", listener, why));
  }
  return notes;
}

void get_ready(NodeApi& api, const RouteCall& call, const NoParams&,
               const Responder<protocol::Readiness>& respond) {
  auto readiness = protocol::readiness_of(*api.telemetry.latest());
  readiness.now = to_rfc3339(api.loop.wall());
  if (can_see_machine(call.principal)) {
    readiness.notes = notes_of(api);
    readiness.reads_kernel_log = api.reads_kernel_log();
    readiness.lacks = api.lacks;
  } else {
    readiness.reason =
        readiness.ready ? "ready" : "not ready; send a token of scope read to see why";
  }
  respond(readiness, readiness.ready ? 200 : 503);
}

}  // namespace

std::vector<BoundRoute> driver_routes() {
  return {bind(protocol::kDriver, &get_driver)};
}

std::vector<BoundRoute> node_routes() {
  return {
      bind(protocol::kMetrics, &get_metrics),
      bind(protocol::kHealth, &get_health),
      bind(protocol::kReady, &get_ready),
  };
}

}  // namespace gpuyard::api
