#include "daemon/api_server.h"

#include <utility>

#include <fmt/format.h>

#include "base/json_writer.h"
#include "base/log.h"
#include "base/try.h"
#include "core/processes/identify.h"
#include "daemon/config/keys.h"
#include "daemon/descriptor_budget.h"
#include "daemon/machine_reader.h"
#include "faces/protocol/control.h"
#include "faces/protocol/energy.h"
#include "io/http/endpoint.h"

namespace gpuyard::daemon {
namespace {

constexpr Duration kShutdownGrace = std::chrono::milliseconds(500);

protocol::GpuEvent gpu_event_of(const events::Event& event) {
  return {to_rfc3339(event.wall),
          event.device.empty() ? std::nullopt : std::optional(event.device),
          event.index,
          event.kind,
          event.severity,
          event.xid,
          event.text};
}

metrics::Selection selection_of(const config::Config::Metrics& configured) {
  using Dialect = config::Config::Metrics::Dialect;
  using Profile = config::Config::Metrics::Profile;
  metrics::Selection selection;
  if (configured.dialect == Dialect::both) selection.dialect = metrics::Dialect::both;
  if (configured.dialect == Dialect::dcgm) selection.dialect = metrics::Dialect::dcgm;
  if (configured.profile == Profile::minimal) selection.profile = metrics::Profile::minimal;
  return selection;
}

}  // namespace

ApiServer::ApiServer(http::IoLoop& loop, const ServeOptions& options, Workers& workers,
                     const processes::SubordinateUids& uids, const Rooms& rooms)
    : loop_(loop),
      options_(options),
      workers_(workers),
      rooms_(rooms),
      identities_(loop, workers, rooms.state, options.config, uids),
      event_hub_(rooms.driver.event_log().epoch(), rooms.driver.telemetry().latest(),
                 &rooms.recorders.processes()),
      bottleneck_publisher_(event_hub_),
      alert_publisher_(event_hub_, rooms.alerts.service()),
      context_(api_rooms()),
      lease_publisher_(context_.leases, event_hub_),
      router_(context_, identities_.authority),
      server_(
          loop,
          [this](http::Request request, http::Reply reply) {
            router_.handle(std::move(request), std::move(reply));
          },
          limits_of(options.config, descriptor_limit())),
      listeners_(loop, [this](const std::string& address) { on_opened(address); }) {
  configure_api();
  if (options.config.zeus.is_enabled()) {
    zeus_.emplace(loop, workers.query, rooms.driver.telemetry(), rooms.control.control(),
                  identities_.authority, options.config, uids, options.version);
  }
}

api::Rooms ApiServer::api_rooms() {
  return {
      .loop = loop_,
      .telemetry = rooms_.driver.telemetry(),
      .events = event_hub_,
      .processes = rooms_.recorders.processes(),
      .history = rooms_.recorders.history(),
      .process_recorder = rooms_.recorders.process_recorder(),
      .bottleneck_recorder = rooms_.recorders.bottleneck_recorder(),
      .energy = rooms_.energy.meter(),
      .control = rooms_.control.control(),
      .leases = rooms_.leases.leases(),
      .usage = rooms_.usage.recorder(),
      .alerts = rooms_.alerts.service(),
      .alert_sinks = rooms_.alerts,
      .alert_publisher = alert_publisher_,
      .tokens = identities_.tokens,
      .auth_throttle = identities_.auth_throttle,
      .certificates = identities_.certificates,
      .loop_lag = rooms_.loop_lag,
      .alert_cost = rooms_.alerts.evaluation_time(),
  };
}

void ApiServer::configure_api() {
  const config::Config& config = options_.config;
  context_.users = {
      .name_of = [this](std::uint32_t uid) { return identities_.users.name_of(uid); },
      .is_gone = [this](std::uint32_t uid) { return identities_.users.is_gone(uid); },
      .resolve = [this](const auto& uids,
                        auto on_done) { identities_.users.resolve(uids, std::move(on_done)); },
      .check_group_member =
          [this](std::uint32_t uid, auto on_member) {
            identities_.group.query(uid, std::move(on_member));
          },
      .quota_owner = [this](std::uint32_t uid) { return identities_.owner_of(uid); },
      .can_signal = &processes::can_signal,
  };
  context_.daemon.version = options_.version;
  context_.energy.tariff = {config.energy.price_per_kwh, config.energy.currency,
                            config.energy.g_co2_per_kwh};
  context_.control.holders_may_control = config.lease.may_control;
  context_.metrics.prefix = config.metrics.prefix;
  context_.metrics.selection = selection_of(config.metrics);
  context_.metrics.event_drops = &rooms_.driver.event_drops();
  context_.node.reads_kernel_log = [this] { return rooms_.driver.reads_kernel_log(); };
  context_.node.closed_listeners = &listeners_.closed();
  context_.node.marks_error = [this] { return rooms_.leases.marks_error(); };
  context_.brief.configuration = config::section_digests(config);
  context_.host.read_machine = [this](auto on_read) {
    return run_on_worker(
        workers_.query, [] { return MachineReader().read(); },
        [on_read = std::move(on_read)](const protocol::HostMachine& machine) { on_read(machine); });
  };
  context_.pages.device_table = options_.device_table;
}

Result<void> ApiServer::listen() {
  const config::Config::Server& server = options_.config.server;
  server_.allow_hosts(server.allowed_hosts);
  // A client that claims GPUs is bound to a process.
  server_.set_process_filter([](const http::Request& request) {
    return request.method == http::Method::post && request.path.starts_with("/api/gpu/leases");
  });
  // On the socket for leases, root may be a container's.
  server_.set_quota_policy([this](uid_t uid) { return identities_.owner_of(uid); },
                           [this](const http::Peer& peer) {
                             return api::principal_of(peer, identities_.authority).scope ==
                                    protocol::Scope::admin;
                           });
  for (const std::string& address : server.listen) {
    const auto bound = listen_on_address(server_, address);
    if (bound) {
      on_opened(*bound);
    } else if (bound.error().code == Errc::unavailable) {
      // An address may appear with its interface later. An address in use belongs to another
      // daemon.
      listeners_.add("server.listen " + address,
                     [this, address] { return listen_on_address(server_, address); });
    } else {
      Error error = bound.error();
      if (error.code == Errc::conflict) {
        error.hint =
            Environment::current().system_service
                ? fmt::format(
                      "sudo ss -ltnp 'sport = :{}'  # that program; or set another address "
                      "in [server] listen",
                      address.substr(address.rfind(':') + 1))
                : "gpuyard serve --listen 127.0.0.1:0  # any free port";
      }
      return error;
    }
  }
  const auto main = listen_on_socket(server_, server.socket, "the directory of the socket");
  if (!main) {
    Error error = main.error();
    const bool named = Environment::current().gpuyard_socket == server.socket;
    if (named && error.cause.empty()) error.cause = "GPUYARD_SOCKET is set";
    return error;
  }
  on_opened(*main);
  if (const std::string& socket = identities_.authority.lease_socket; !socket.empty()) {
    listeners_.add("server.lease_socket " + socket, [this, socket] {
      return listen_on_socket(server_, socket, "the directory of the lease socket");
    });
  }
  listen_tls();
  if (zeus_) zeus_->listen(listeners_);
  return {};
}

void ApiServer::listen_tls() {
  if (options_.config.tls.listen.empty()) return;
  tls_.emplace(loop_, workers_.query, options_.config);
  context_.daemon.tls = &tls_->tls_metrics();
  tls_->open([this] {
    for (const std::string& text : options_.config.tls.listen) {
      listeners_.add("tls.listen " + text, [this, text]() -> Result<std::string> {
        const auto endpoint = GPUYARD_TRY(http::parse_endpoint(text));
        const auto bound =
            server_.listen_tls(endpoint.address, endpoint.port, tls_->identity_source());
        if (!bound) return bound.error();
        return "https://" + http::Endpoint::tcp(bound->address, bound->port).text();
      });
    }
  });
}

void ApiServer::on_opened(const std::string& address) {
  listen_addresses_.push_back(address);
  if (started_) log::info("listening on {}", address);
}

void ApiServer::start() {
  started_ = true;
  identities_.start();
  rooms_.alerts.watch_credentials({.tokens = &identities_.tokens,
                                   .tls = tls_ ? &tls_->tls_metrics() : nullptr,
                                   .closed_listeners = &listeners_.closed(),
                                   .slurm_error = &context_.slurm.error,
                                   .plugin_report = &context_.pods.plugin_report});
  lease_publisher_.start();
  rooms_.alerts.service().set_on_change(
      [this](const andon::Alert& alert) { alert_publisher_.on_change(alert); });
  if (zeus_) zeus_->start();
}

void ApiServer::stop(std::function<void()> on_done) {
  const auto last = [this, on_done = std::move(on_done)] {
    server_.shutdown(kShutdownGrace, on_done);
  };
  zeus_ ? zeus_->stop(kShutdownGrace, last) : last();
}

void ApiServer::reload_certificate() {
  if (tls_) tls_->reload();
}

void ApiServer::add_missing_restrictions(const std::vector<std::string>& restrictions) {
  context_.node.lacks.insert(context_.node.lacks.end(), restrictions.begin(), restrictions.end());
}

void ApiServer::on_snapshot(const telemetry::SnapshotPtr& snapshot) {
  if (tls_) tls_->update_counters(server_.counters());
  event_hub_.set_snapshot(snapshot);
  bottleneck_publisher_.on_snapshot(*snapshot);
}

void ApiServer::on_event(const events::Event& event) {
  event_hub_.publish(protocol::kDeviceEvent, json::to_json(gpu_event_of(event)), event.device,
                     event.severity);
}

void ApiServer::on_operation(const control::Operation& operation) {
  event_hub_.publish(protocol::kOperationEvent, json::to_json(protocol::operation_of(operation)),
                     operation.result.gpu);
}

void ApiServer::on_lease_change(const lease::Lease& lease) {
  lease_publisher_.on_change(lease);
  identities_.users.resolve({lease.uid}, [] {});
}

}  // namespace gpuyard::daemon
