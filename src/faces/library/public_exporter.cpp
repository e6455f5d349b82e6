// The public PrometheusExporter: its options, and the server if there is one.
#include <utility>

#include <fmt/format.h>

#include "base/try.h"
#include "faces/library/exporter.h"
#include "faces/library/public_monitor.h"
#include "faces/library/scraper.h"
#include "faces/metrics/prometheus.h"
#include "gpuyard/prometheus_exporter.h"

namespace gpuyard {

struct [[gnu::visibility("hidden")]] v0::PrometheusExporter::State {
  std::string prefix = "gpuyard";
  library::ExporterOptions options;
  std::shared_ptr<const Monitor::State> monitor;
  std::unique_ptr<library::Exporter> exporter;

  // Works without a driver too: then the metrics say that there is none.
  library::Scraper::SnapshotReader reader() const {
    return [of = monitor] {
      Snapshot snapshot;
      snapshot.taken = BootClock::now();
      if (of->monitor) snapshot = of->monitor->inventory(kReadDeadline);
      return snapshot;
    };
  }
  std::string listen_address() const { return fmt::format("{}:{}", options.address, options.port); }
};

v0::PrometheusExporter::PrometheusExporter() : state_(std::make_unique<State>()) {
  state_->options.version = GPUYARD_VERSION;
}
v0::PrometheusExporter::PrometheusExporter(PrometheusExporter&&) noexcept = default;
v0::PrometheusExporter& v0::PrometheusExporter::operator=(PrometheusExporter&&) noexcept = default;
v0::PrometheusExporter::~PrometheusExporter() = default;

v0::PrometheusExporter& v0::PrometheusExporter::with_prefix(std::string prefix) {
  state_->prefix = std::move(prefix);
  return *this;
}
v0::PrometheusExporter& v0::PrometheusExporter::with_port(std::uint16_t port) {
  state_->options.port = port;
  return *this;
}
v0::PrometheusExporter& v0::PrometheusExporter::with_address(std::string address) {
  state_->options.address = std::move(address);
  return *this;
}
v0::PrometheusExporter& v0::PrometheusExporter::with_hosts(std::vector<std::string> names) {
  state_->options.hosts = std::move(names);
  return *this;
}

Result<void> v0::PrometheusExporter::register_gpu_metrics(const Monitor& monitor) {
  GPUYARD_TRY(metrics::check_prefix(state_->prefix));
  if (state_->monitor) return Error{Errc::conflict, "a monitor's metrics are already registered"};
  state_->monitor = monitor.state_;
  return {};
}

Result<void> v0::PrometheusExporter::start() {
  if (state_->exporter) {
    return Error{Errc::conflict, fmt::format("already serving on port {}; call stop() first",
                                             state_->exporter->port())};
  }
  if (!state_->monitor) {
    return Error{Errc::invalid, "nothing to serve; call register_gpu_metrics() first"};
  }
  GPUYARD_TRY(metrics::check_prefix(state_->prefix));
  auto started = library::Exporter::start(
      {state_->reader(), state_->prefix, state_->options.version}, state_->options);
  if (started) {
    state_->exporter = *std::move(started);
    return {};
  }
  if (started.error().code != Errc::conflict) return std::move(started).error();
  return Error{Errc::conflict, fmt::format("{} is in use by another program; choose another port "
                                           "with with_port(), or 0 for any free port",
                                           state_->listen_address())};
}

std::uint16_t v0::PrometheusExporter::port() const {
  return state_->exporter ? state_->exporter->port() : std::uint16_t{0};
}

void v0::PrometheusExporter::stop() {
  state_->exporter.reset();
}

}  // namespace gpuyard
