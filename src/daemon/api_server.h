// The daemon's HTTP server: what it listens on, who calls, and the routes with all that they may
// use.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "base/lifetime.h"
#include "core/control/operations.h"
#include "daemon/certificate_reloader.h"
#include "daemon/driver_link.h"
#include "daemon/energy_adapter.h"
#include "daemon/identities.h"
#include "daemon/lease_adapter.h"
#include "daemon/listener_opener.h"
#include "daemon/recorders.h"
#include "daemon/usage_adapter.h"
#include "daemon/zeus_adapter.h"
#include "faces/api/alert_view.h"
#include "faces/api/bottleneck_publisher.h"
#include "faces/api/context.h"
#include "faces/api/event_hub.h"
#include "faces/api/lease_publisher.h"
#include "faces/api/router.h"
#include "io/http/server.h"

namespace gpuyard::daemon {

// Thread: io.
class ApiServer {
 public:
  // The components that the routes use. They outlive the server.
  struct Rooms {
    DriverLink& driver;
    Recorders& recorders;
    store::StateStore& state;
    EnergyAdapter& energy;
    ControlAdapter& control;
    LeaseAdapter& leases;
    UsageAdapter& usage;
    AlertAdapter& alerts;
    const Histogram& loop_lag;
  };

  ApiServer(http::IoLoop&, const ServeOptions&, Workers&, const processes::SubordinateUids&,
            const Rooms&);

  Result<void> listen();
  void start();
  // Opens no further listener.
  void stop_opening() { listeners_.stop(); }
  // Answers what is under way, then closes the connections.
  void stop(std::function<void()> on_done);
  void reload_certificate();
  void set_revoked(const config::Config::Tls& tls) { identities_.set_revoked(tls); }
  // Adds restrictions that the daemon could not put on itself, and why.
  void add_missing_restrictions(const std::vector<std::string>& restrictions);

  void on_snapshot(const telemetry::SnapshotPtr&);
  void on_event(const events::Event&);
  void on_operation(const control::Operation&);
  void on_lease_change(const lease::Lease&);

  const std::vector<std::string>& listen_addresses() const { return listen_addresses_; }

 private:
  void listen_tls();
  void on_opened(const std::string& address);
  api::Rooms api_rooms();  // refers to the members above context_
  void configure_api();

  http::IoLoop& loop_;
  const ServeOptions& options_;
  Workers& workers_;
  const Rooms rooms_;
  Identities identities_;
  api::EventHub event_hub_;
  api::BottleneckPublisher bottleneck_publisher_;
  api::AlertPublisher alert_publisher_;
  api::Context context_;
  api::LeasePublisher lease_publisher_;
  api::Router router_;
  http::Server server_;
  std::optional<CertificateReloader> tls_;
  std::optional<ZeusAdapter> zeus_;
  std::vector<std::string> listen_addresses_;
  ListenerOpener listeners_;
  bool started_ = false;
};

}  // namespace gpuyard::daemon
