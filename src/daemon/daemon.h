// The daemon's moving parts in the order in which they depend on each other.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <optional>

#include "base/lifetime.h"
#include "base/loop_lag.h"
#include "base/worker.h"
#include "core/auth/auth_throttle.h"
#include "core/auth/token_store.h"
#include "core/bottleneck/bottleneck_detector.h"
#include "core/bottleneck/bottleneck_spans.h"
#include "core/history/history.h"
#include "core/processes/process_spans.h"
#include "core/processes/process_tracker.h"
#include "daemon/alert_adapter.h"
#include "daemon/alert_config.h"
#include "daemon/certificate_reloader.h"
#include "daemon/config_reloader.h"
#include "daemon/control_adapter.h"
#include "daemon/driver_renewal.h"
#include "daemon/energy_adapter.h"
#include "daemon/lease_adapter.h"
#include "daemon/listener_opener.h"
#include "daemon/machine_memory.h"
#include "daemon/mark_link.h"
#include "daemon/serve.h"
#include "daemon/service_manager.h"
#include "daemon/usage_adapter.h"
#include "daemon/user_directory.h"
#include "daemon/zeus_adapter.h"
#include "faces/api/alert_view.h"
#include "faces/api/bottleneck_publisher.h"
#include "faces/api/client_certificates.h"
#include "faces/api/lease_publisher.h"
#include "faces/api/router.h"
#include "gpu/driver/driver_host_client.h"
#include "gpu/events/event_collector.h"
#include "gpu/events/event_log.h"
#include "gpu/events/kernel_log.h"
#include "gpu/events/snapshot_diff.h"
#include "gpu/telemetry/telemetry.h"
#include "io/http/loop.h"
#include "io/http/server.h"
#include "io/store/history_db.h"
#include "io/store/token_db.h"

namespace gpuyard::daemon {

// Thread: io. The rooms reach each other through its overrides.
class Daemon final : private driver::DriverHostListener, private telemetry::ReadRequester {
 public:
  // `driver_descriptors`: the soft limit of descriptors for the process that loads the driver.
  Daemon(http::IoLoop&, const ServeOptions&, AlertConfig, rlim_t driver_descriptors);

  Result<void> listen();
  // The restrictions that the daemon could not put on itself.
  void set_missing_restrictions(std::vector<std::string> restrictions) {
    context_.lacks = std::move(restrictions);
  }
  void start();
  void stop(std::function<void()> on_done);
  // Reads the configuration again, and applies its live keys: all of them or nothing.
  void reload();
  const std::vector<std::string>& listen_addresses() const { return listen_addresses_; }

 private:
  void listen_tls();
  void on_opened(const std::string& address);
  void on_inventory(const Inventory&) override;
  void on_no_driver(const Error&) override;
  void on_reply(const ReadReply& reply) override { telemetry_.on_reply(reply); }
  void on_command_reply(const CommandReply& reply) override { control_.control().on_reply(reply); }
  void on_event(const DeviceEvent& event) override { event_collector_.on_driver_event(event); }
  void on_host_down(const std::string& why) override;
  bool read(const ReadRequest& request) override { return host_.read(request); }
  void on_snapshot(const telemetry::SnapshotPtr&);
  bottleneck::ExternalFacts external_facts(const DeviceState&);  // for bottleneck_detector_
  void on_event_added(const events::Event&);
  void on_config_loaded(Result<ConfigReloader::LoadedConfig>);
  api::Context api_context();  // refers to the members above context_
  void follow_kernel_log(bool simulated);
  std::string machine_of(const DriverInfo&) const;
  void publish_inventory();
  void on_acknowledged(const andon::Alert&, const andon::Rule&);

  http::IoLoop& loop_;
  const ServeOptions& options_;
  // Opened once, before the sockets and while the process has the capability for it.
  // follow_kernel_log() moves from it.
  std::optional<Result<UniqueFd>> kernel_log_file_;
  ServiceManager service_manager_ = ServiceManager::of_environment();  // before the first worker
  LoopLag loop_lag_;
  driver::DriverHostClient host_;
  DriverRenewal renewal_;
  telemetry::Telemetry telemetry_;
  ThreadWorker query_worker_;
  ThreadWorker name_worker_;  // separate, so that a slow name service does not delay disk reads
  processes::ProcessTracker process_tracker_;
  events::EventLog event_log_;
  events::EventCollector event_collector_;
  events::ChangeDetector change_detector_;
  bottleneck::BottleneckDetector bottleneck_detector_;
  api::EventHub event_hub_;
  api::BottleneckPublisher bottleneck_publisher_;
  std::shared_ptr<store::HistoryDb> history_db_;  // used on query_worker_ only
  history::History history_;
  processes::ProcessRecorder process_recorder_;
  bottleneck::BottleneckRecorder bottleneck_recorder_;
  std::optional<events::KernelLog> kernel_log_;
  ThreadWorker store_worker_;
  store::StateStore state_;
  MachineMemory machine_memory_;
  std::optional<Inventory> inventory_;  // kept until the machine memory is recalled
  EnergyAdapter energy_;
  ControlAdapter control_;
  // Connected before the daemon listens.
  const std::shared_ptr<processes::MarkClient> marks_;
  ThreadWorker lease_worker_;  // apart, so that no slow name service delays it
  // Looked up once, before the loop turns: a name service may be slow.
  const processes::SubordinateUids subordinate_uids_ =
      processes::SubordinateUids::of_this_machine();
  LeaseAdapter leases_;
  ThreadWorker usage_worker_;
  store::StateStore usage_store_;
  UsageAdapter usage_adapter_;
  AlertAdapter alerts_;
  ConfigReloader config_reloader_;
  UserDirectory users_;
  store::TokenDb token_db_;
  auth::TokenStore tokens_;
  auth::AuthThrottle auth_throttle_;
  api::ClientCertificates certificates_;
  api::AlertPublisher alert_publisher_;
  const api::Authority authority_;
  GroupDirectory group_;
  api::Context context_;
  api::LeasePublisher lease_publisher_;
  api::Router router_;
  http::Server server_;
  std::optional<CertificateReloader> tls_;
  std::optional<ZeusAdapter> zeus_;
  std::vector<std::string> listen_addresses_;
  ListenerOpener listeners_;
  bool started_ = false;
  bool ready_notified_ = false;
  Lifetime lifetime_;
};

}  // namespace gpuyard::daemon
