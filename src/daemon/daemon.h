// The daemon's moving parts in the order in which they depend on each other.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <optional>

#include "base/loop.h"
#include "base/worker.h"
#include "core/auth/auth_throttle.h"
#include "core/auth/token_store.h"
#include "core/bottleneck/bottleneck_detector.h"
#include "core/bottleneck/bottleneck_spans.h"
#include "core/history/history.h"
#include "core/processes/process_cache.h"
#include "core/processes/process_spans.h"
#include "daemon/alert_adapter.h"
#include "daemon/certificate_reloader.h"
#include "daemon/config_reloader.h"
#include "daemon/control_adapter.h"
#include "daemon/doors.h"
#include "daemon/driver_renewal.h"
#include "daemon/energy_adapter.h"
#include "daemon/lease_adapter.h"
#include "daemon/machine_memory.h"
#include "daemon/mark_link.h"
#include "daemon/serve.h"
#include "daemon/service_manager.h"
#include "daemon/user_directory.h"
#include "daemon/zeus_adapter.h"
#include "faces/api/alert_view.h"
#include "faces/api/client_certificates.h"
#include "faces/api/devices.h"
#include "faces/api/lease_stream.h"
#include "faces/api/router.h"
#include "gpu/driver/driver_host_client.h"
#include "gpu/events/event_collector.h"
#include "gpu/events/kernel_log.h"
#include "gpu/events/snapshot_diff.h"
#include "gpu/telemetry/telemetry.h"
#include "io/http/loop.h"
#include "io/http/server.h"
#include "io/store/history_db.h"
#include "io/store/token_db.h"

namespace gpuyard::daemon {

// Lives on the io thread. The rooms reach each other through its overrides.
class Yard final : private driver::DriverHostListener, private telemetry::Reader {
 public:
  // `driver_descriptors`: the soft limit of descriptors for the process that loads the driver.
  Yard(http::IoLoop&, const ServeOptions&, AlertConfig, rlim_t driver_descriptors);

  Result<void> listen();
  // The restrictions that the daemon could not put on itself.
  void lacks(std::vector<std::string> restrictions) { context_.lacks = std::move(restrictions); }
  void start();
  void stop(std::function<void()> done);
  // Reads the configuration again, and applies its live keys: all of them or nothing.
  void reload();
  const std::vector<std::string>& places() const { return places_; }

 private:
  void listen_tls();
  void on_opened(const std::string& place);
  void on_fleet(const Fleet&) override;
  void on_no_driver(const Error&) override;
  void on_reply(const ReadReply& reply) override { telemetry_.on_reply(reply); }
  void on_command_reply(const CommandReply& reply) override { control_.control().on_reply(reply); }
  void on_event(const DeviceEvent& event) override { intake_.on_driver_event(event); }
  void on_host_down(const std::string& why) override;
  bool read(const ReadRequest& request) override { return host_.read(request); }
  void on_snapshot(const telemetry::SnapshotPtr&);
  bottleneck::Around around(const DeviceState&);  // for bottlenecks_
  void on_added(const events::Event&);
  void on_reread(Result<Reload::Fresh>);
  api::Context api_context();  // refers to the members above context_
  void follow_kernel_log(bool simulated);
  std::string machine_of(const DriverInfo&) const;
  void list_gpus();
  void on_acknowledged(const andon::Alert&, const andon::Rule&);

  http::IoLoop& loop_;
  const ServeOptions& options_;
  // Opened once, before the sockets and while the process has the capability for it. Moved from
  // once it is known whether it is about these GPUs.
  std::optional<Result<UniqueFd>> kernel_log_file_;
  ServiceManager manager_ = ServiceManager::of_environment();  // before the first worker
  LoopLag loop_lag_;
  driver::DriverHostClient host_;
  DriverRenewal renewal_;
  telemetry::Telemetry telemetry_;
  ThreadWorker query_;
  ThreadWorker names_;  // separate, so that a slow name service does not delay disk reads
  processes::OwnerWatch owners_;
  events::Journal journal_;
  events::Intake intake_;
  events::ChangeDetector changes_;
  bottleneck::Watch bottlenecks_;
  api::EventHub event_hub_;
  api::BottleneckPublisher bottleneck_news_;
  std::shared_ptr<store::HistoryDb> history_books_;  // used on the worker query_ only
  history::History history_;
  processes::ProcessRecorder stays_;
  bottleneck::BottleneckRecorder spells_;
  std::optional<events::KernelLog> kernel_log_;
  ThreadWorker store_;
  store::StateStore state_;
  MachineMemory memory_;
  std::optional<Fleet> fleet_;  // until what is known of it is read
  EnergyAdapter energy_;
  ControlAdapter control_;
  // Connected before the daemon listens.
  const std::shared_ptr<processes::MarkClient> marks_;
  ThreadWorker lease_looks_;  // apart, so that no slow name service delays it
  // Asked once, before the loop turns: a name service may be slow.
  const processes::SubordinateUids subordinate_uids_ =
      processes::SubordinateUids::of_this_machine();
  LeaseAdapter leases_;
  ThreadWorker usage_;
  store::StateStore usage_books_;
  UsageAdapter use_;
  AlertAdapter andon_;
  Reload reload_;
  UserDirectory users_;
  store::TokenDb token_books_;
  access::Tokens tokens_;
  access::Guesses guesses_;
  api::ClientCertificates certificates_;
  api::AlertPublisher alert_news_;
  const api::Authority authority_;
  GroupDirectory group_;
  api::Context context_;
  api::LeasePublisher news_;
  api::Router router_;
  http::Server server_;
  std::optional<CertificateReloader> tls_;
  std::optional<ZeusAdapter> zeus_;
  std::vector<std::string> places_;
  Doors doors_;
  bool started_ = false;
  bool told_ready_ = false;
  Lifetime here_;
};

}  // namespace gpuyard::daemon
