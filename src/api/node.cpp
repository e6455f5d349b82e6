// The node: its driver, its metrics, and whether the daemon is alive and ready.
#include <algorithm>

#include "api/handlers.h"
#include "device/error.h"
#include "metrics/prometheus.h"

namespace gpuyard::api {
namespace {

metrics::LeaseFigures figures_of(const lease::Leases& leases) {
  metrics::LeaseFigures figures;
  for (const auto& [id, gpu] : leases.gpus().gpus()) {
    figures.gpus.emplace_back(gpu.info.index, leases.leased(id));
  }
  std::ranges::sort(figures.gpus);
  for (const auto& [id, lease] : leases.leases()) {
    const bool has = lease.state == lease::State::held || lease.state == lease::State::draining;
    figures.held += has ? 1 : 0;
  }
  figures.waiting = leases.pending_claimers();
  figures.grants = leases.last_fence();
  return figures;
}

std::string render_metrics(const Context& context) {
  metrics::Process process{context.version, context.loop_lag};
  metrics::LeaseFigures figures;
  if (context.leases != nullptr) {
    figures = figures_of(*context.leases);
    process.leases = &figures;
  }
  return metrics::render(*context.telemetry.latest(), process, context.metrics_prefix);
}

}  // namespace

void get_driver(Context& context, const NoParams&, Responder<protocol::DriverInfo> respond) {
  const DriverState& driver = context.telemetry.latest()->driver;
  if (!driver.initialised) return respond(Error{Errc::unavailable, driver.why});
  respond(protocol::driver_info_of(driver.info));
}

void get_metrics(Context& context, const NoParams&, Responder<Text> respond) {
  // Both only grow, so that their sum is another whenever one of them is.
  const std::uint64_t state = context.telemetry.latest()->generation + context.lease_changes;
  const auto& body = context.metrics.get(state, [&] { return render_metrics(context); });
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
