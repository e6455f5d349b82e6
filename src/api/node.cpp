// The node: its driver, its metrics, and whether the daemon is alive and ready.
#include "api/handlers.h"
#include "device/error.h"
#include "metrics/prometheus.h"

namespace gpuyard::api {

void get_driver(Context& context, const NoParams&, Responder<protocol::DriverInfo> respond) {
  const DriverState& driver = context.telemetry.latest()->driver;
  if (!driver.initialised) return respond(Error{Errc::unavailable, driver.why});
  respond(protocol::driver_info_of(driver.info));
}

void get_metrics(Context& context, const NoParams&, Responder<Text> respond) {
  const Snapshot& snapshot = *context.telemetry.latest();
  const auto& body = context.metrics.get(snapshot.generation, [&] {
    return metrics::render(snapshot, {context.version, context.loop_lag}, context.metrics_prefix);
  });
  respond(Text{"text/plain; version=0.0.4; charset=utf-8", body});
}

void get_health(Context& context, const NoParams&, Responder<protocol::Health> respond) {
  respond(protocol::Health{"ok", context.version});
}

void get_ready(Context& context, const NoParams&, Responder<protocol::Readiness> respond) {
  const auto readiness = protocol::readiness_of(*context.telemetry.latest());
  respond(readiness, readiness.ready ? 200 : 503);
}

}  // namespace gpuyard::api
