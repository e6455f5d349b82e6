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

// The context has alerts.
metrics::AlertMetrics alert_figures(const Context& context) {
  const andon::AlertService& alerts = context.alerts;
  metrics::AlertMetrics figures;
  for (const andon::Alert& alert : alerts.engine().firing_alerts()) {
    figures.firing.push_back({alert.rule, std::string(name_of(andon::level_of(alert.severity))),
                              alert.severity, device_of(alerts.engine(), alert),
                              alert.acknowledged.has_value(),
                              alerts.silences().is_silenced(alert)});
  }
  figures.pending = alerts.engine().pending_alerts(context.loop.now()).size();
  figures.rules = static_cast<std::size_t>(
      std::ranges::count(alerts.engine().rules(), true, &andon::Rule::enabled));
  figures.evaluation_time = &context.alert_cost;
  for (const protocol::Sink& sink : context.alert_sinks.sinks()) {
    figures.sinks.push_back({sink.name, sink.kind, static_cast<std::size_t>(sink.queued),
                             sink.delivered_total, sink.retries_total, sink.dead_letters_total});
  }
  return figures;
}

std::string render_metrics(const Context& context, metrics::Format format) {
  const metrics::LeaseMetrics leases = lease_figures(context.leases);
  const metrics::AlertMetrics alerts = alert_figures(context);
  metrics::DaemonMetrics process{context.version, &context.loop_lag, &leases, &alerts};
  process.tls = context.tls;
  metrics::EventMetrics events;
  if (context.event_drops != nullptr) {
    events = {*context.event_drops, context.alerts.engine().dropped_events()};
    process.events = &events;
  }
  if (context.metrics_dialect != metrics::Dialect::gpuyard) process.hostname = host_name();
  return metrics::render(*context.telemetry.latest(), process, context.metrics_prefix, format,
                         context.metrics_dialect);
}

void get_driver(Context& context, const NoParams&, const Responder<protocol::DriverInfo>& respond) {
  const DriverState& driver = context.telemetry.latest()->driver;
  if (!driver.initialised) return respond(Error{Errc::unavailable, driver.why});
  respond(protocol::driver_info_of(driver.info));
}

void get_metrics(Context& context, const RouteCall& call, const NoParams&,
                 const Responder<Text>& respond) {
  // Both numbers only grow, so their sum changes with either.
  const std::uint64_t state = context.telemetry.latest()->generation + context.lease_changes;
  const metrics::Format format = metrics::negotiate_format(call.accept);
  RenderCache<>& rendered = format == metrics::Format::text ? context.metrics : context.openmetrics;
  const auto& body = rendered.get(state, [&] { return render_metrics(context, format); });
  http::Response response(200, std::string(metrics::content_type_of(format)), body);
  response.headers.push_back({"Vary", "Accept"});
  respond.send(std::move(response));
}

void get_health(Context& context, const RouteCall& call, const NoParams&,
                const Responder<protocol::Health>& respond) {
  respond(protocol::Health{"ok", can_see_machine(call.principal) ? context.version : ""});
}

std::vector<std::string> notes_of(const Context& context) {
  std::vector<std::string> notes;
  if (context.tls != nullptr && !context.tls->reload_error.empty()) {
    notes.push_back(context.tls->reload_error);
  }
  for (std::string& note : context.control.notes()) notes.push_back(std::move(note));
  for (const protocol::Sink& sink : context.alert_sinks.sinks()) {
    if (!sink.closed.value_or(false)) continue;
    notes.push_back(
        fmt::format("alert sink {} is closed: {}", sink.name, sink.last_error.value_or("")));
  }
  if (const std::string why = context.marks_error(); !why.empty()) {
    notes.push_back(
        fmt::format("gpuyard-marks is not available ({}): the lease of another user's process is "
                    "found only by its parents; see `systemctl status gpuyard-marks.socket`",
                    why));
  }
  if (context.closed_listeners == nullptr) return notes;
  for (const auto& [listener, why] : *context.closed_listeners) {
    notes.push_back(fmt::format("{} is closed: {}", listener, why));
  }
  return notes;
}

void get_ready(Context& context, const RouteCall& call, const NoParams&,
               const Responder<protocol::Readiness>& respond) {
  auto readiness = protocol::readiness_of(*context.telemetry.latest());
  readiness.now = to_rfc3339(context.loop.wall());
  if (can_see_machine(call.principal)) {
    readiness.notes = notes_of(context);
    readiness.reads_kernel_log = context.reads_kernel_log();
    readiness.lacks = context.lacks;
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
