// The node: its driver, its metrics, and whether the daemon is alive and ready.
#include "api/figures.h"
#include "api/handlers.h"
#include "base/host_name.h"
#include "device/error.h"
#include "metrics/prometheus.h"

namespace gpuyard::api {
namespace {

std::string render_metrics(const Context& context, metrics::Format format) {
  metrics::Process process{context.version, context.loop_lag};
  metrics::LeaseFigures figures;
  if (context.leases != nullptr) {
    figures = lease_figures(*context.leases);
    process.leases = &figures;
  }
  metrics::AlertFigures alerts;
  if (context.alerts != nullptr) {
    alerts = alert_figures(context);
    process.alerts = &alerts;
  }
  if (context.metrics_dialect != metrics::Dialect::gpuyard) process.hostname = host_name();
  return metrics::render(*context.telemetry.latest(), process, context.metrics_prefix, format,
                         context.metrics_dialect);
}

void get_driver(Context& context, const NoParams&, Responder<protocol::DriverInfo> respond) {
  const DriverState& driver = context.telemetry.latest()->driver;
  if (!driver.initialised) return respond(Error{Errc::unavailable, driver.why});
  respond(protocol::driver_info_of(driver.info));
}

void get_metrics(Context& context, const Asked& asked, const NoParams&, Responder<Text> respond) {
  // Both only grow, so that their sum is another whenever one of them is.
  const std::uint64_t state = context.telemetry.latest()->generation + context.lease_changes;
  const metrics::Format format = metrics::format_for(asked.accept);
  RenderedOnce& rendered = format == metrics::Format::text ? context.metrics : context.openmetrics;
  const auto& body = rendered.get(state, [&] { return render_metrics(context, format); });
  http::Response response(200, std::string(metrics::content_type_of(format)), body);
  response.headers.push_back({"Vary", "Accept"});
  respond.as_is(std::move(response));
}

void get_health(Context& context, const NoParams&, Responder<protocol::Health> respond) {
  respond(protocol::Health{"ok", context.version});
}

void get_ready(Context& context, const NoParams&, Responder<protocol::Readiness> respond) {
  const auto readiness = protocol::readiness_of(*context.telemetry.latest());
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
