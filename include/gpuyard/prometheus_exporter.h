/// @file
/// The GPUs of a program, for Prometheus to scrape.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gpuyard/error.h"
#include "gpuyard/export.h"

namespace gpuyard {
inline namespace v0 {

class Monitor;

/// Serves a Monitor's readings over HTTP: `GET /metrics`, as text or as OpenMetrics for scrapers
/// that prefer it, and `GET /`, a page that says what this server is.
///
/// It serves readings, identity and health under the daemon's metric names. It lacks what only the
/// daemon knows: Xids, leases, alerts and sinks, the lag of its loop, DCGM's dialect.
///
/// ```
/// gpuyard::PrometheusExporter exporter;
/// exporter.with_prefix("training").with_port(9090);
/// if (auto ready = exporter.register_gpu_metrics(monitor); !ready) ...
/// if (auto serving = exporter.start(); !serving) ...
/// ```
///
/// Each scrape reads the GPUs afresh; scrapes that come at the same time share one reading. A GPU
/// that does not answer within kReadDeadline has no readings, and does not delay the others. An
/// unknown value has no series.
///
/// It listens on loopback by default. Any client may connect: there is no TLS and no login. Slow
/// and greedy clients are cut off. It writes nothing to disk, handles no signal, and runs two
/// threads from start() to stop(). One thread at a time may call member functions.
class GPUYARD_API PrometheusExporter {
 public:
  /// The longest wait of a scrape for a GPU.
  static constexpr std::chrono::milliseconds kReadDeadline{1000};

  /// Not serving yet, with the prefix "gpuyard", on any port of 127.0.0.1.
  PrometheusExporter();
  /// A moved-from exporter may only be destroyed or assigned to.
  PrometheusExporter(PrometheusExporter&&) noexcept;
  /// Stops the server that it held before.
  PrometheusExporter& operator=(PrometheusExporter&&) noexcept;
  /// As stop().
  ~PrometheusExporter();

  // These take effect at the next start().

  /// The prefix of metric names: "training" makes `training_gpu_temperature_celsius`.
  PrometheusExporter& with_prefix(std::string prefix);
  /// The port to listen on; 0 is any free port.
  PrometheusExporter& with_port(std::uint16_t port);
  /// A literal address: "0.0.0.0" is every network of this machine, "::1" loopback of IPv6.
  PrometheusExporter& with_address(std::string address);
  /// Names by which scrapers call this machine, beside "localhost" and the address that they
  /// connect to. Requests for other names are refused, so that no web page reaches the exporter
  /// through a host name that the page's owner controls.
  PrometheusExporter& with_hosts(std::vector<std::string> names);

  /// Says which GPUs to serve. The monitor may be destroyed before the exporter.
  ///
  /// Errors: the prefix cannot begin a metric's name (Errc::invalid), or a monitor is registered
  /// already (conflict).
  Result<void> register_gpu_metrics(const Monitor& monitor);
  /// Begins to serve, and returns.
  ///
  /// Errors: no monitor is registered, or the prefix or the address is not valid (Errc::invalid);
  /// it serves already, or another program has the port (conflict); this user may not take the port
  /// (denied).
  Result<void> start();
  /// The port that it serves on; 0 while it does not serve.
  std::uint16_t port() const;
  /// Stops serving: running scrapes get 1 s to finish. The monitor stays registered. A second call
  /// changes nothing.
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace v0
}  // namespace gpuyard
