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

/// Serves what a Monitor reads over HTTP: `GET /metrics`, as text or as OpenMetrics for scrapers
/// that prefer it, and `GET /` to say what it is.
///
/// It has readings, identity and health under the names that the daemon gives them. What only the
/// daemon knows is not there: Xids, leases, alerts and sinks, the lag of its loop, DCGM's dialect.
///
/// ```
/// gpuyard::PrometheusExporter exporter;
/// exporter.with_prefix("training").with_port(9090);
/// if (auto ready = exporter.register_gpu_metrics(monitor); !ready) ...
/// if (auto serving = exporter.start(); !serving) ...
/// ```
///
/// Each scrape reads the GPUs anew; scrapes that come at the same time share one reading. A GPU
/// that does not answer within kReadDeadline has no readings, and holds up no others. What is not
/// known has no series.
///
/// It listens on loopback unless told otherwise, to whoever connects: there is no TLS and no login.
/// Slow and greedy clients are cut off. Nothing is written to disk, no signal is handled, and two
/// threads run from start() to stop(). One thread at a time may call member functions.
class GPUYARD_API PrometheusExporter {
 public:
  /// How long a scrape waits for a GPU.
  static constexpr std::chrono::milliseconds kReadDeadline{1000};

  /// Not serving yet, with the prefix "gpuyard", on any port of 127.0.0.1.
  PrometheusExporter();
  /// One that was moved from may only be destroyed or assigned to.
  PrometheusExporter(PrometheusExporter&&) noexcept;
  /// Stops what was served before.
  PrometheusExporter& operator=(PrometheusExporter&&) noexcept;
  /// As stop().
  ~PrometheusExporter();

  // What follows counts from the next start() on.

  /// What names of metrics begin with: "training" makes `training_gpu_temperature_celsius`.
  PrometheusExporter& with_prefix(std::string prefix);
  /// Which port to listen on; 0 is any that is free.
  PrometheusExporter& with_port(std::uint16_t port);
  /// A literal address: "0.0.0.0" is every network of this machine, "::1" loopback of IPv6.
  PrometheusExporter& with_address(std::string address);
  /// Names by which scrapers call this machine, beside "localhost" and the address that they
  /// connect to. Others are refused, so that no web page reaches the exporter through a name of its
  /// own.
  PrometheusExporter& with_hosts(std::vector<std::string> names);

  /// What to serve. Keeps what it needs of the monitor, which may end first.
  ///
  /// Errors: the prefix cannot begin a metric's name (Errc::invalid), or something is registered
  /// already (conflict).
  Result<void> register_gpu_metrics(const Monitor& monitor);
  /// Begins to serve, and comes back.
  ///
  /// Errors: nothing is registered, or the prefix or the address is none (Errc::invalid); it serves
  /// already, or another program has the port (conflict); the port is not ours to take (denied).
  Result<void> start();
  /// The port that it serves on; 0 while it does not.
  std::uint16_t port() const;
  /// Serves no more: scrapes under way have a second. What is registered stays so. Doing it again
  /// changes nothing.
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace v0
}  // namespace gpuyard
