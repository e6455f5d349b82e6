// The daemon's moving parts in the order in which they depend on each other.
#pragma once

#include <sys/resource.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/lifetime.h"
#include "base/loop_lag.h"
#include "core/processes/subordinate_uids.h"
#include "daemon/alert_adapter.h"
#include "daemon/alert_config.h"
#include "daemon/api_server.h"
#include "daemon/config_reloader.h"
#include "daemon/control_adapter.h"
#include "daemon/driver_link.h"
#include "daemon/energy_adapter.h"
#include "daemon/lease_adapter.h"
#include "daemon/machine_memory.h"
#include "daemon/recorders.h"
#include "daemon/serve.h"
#include "daemon/service_manager.h"
#include "daemon/usage_adapter.h"
#include "daemon/workers.h"
#include "io/http/loop.h"
#include "io/store/state_store.h"

namespace gpuyard::daemon {

// Thread: io.
class Daemon {
 public:
  // `driver_descriptors`: the soft limit of descriptors for the process that loads the driver.
  Daemon(http::IoLoop&, const ServeOptions&, AlertConfig, rlim_t driver_descriptors);
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  Result<void> listen();
  // The restrictions that the daemon could not put on itself.
  void add_missing_restrictions(const std::vector<std::string>& restrictions) {
    api_.add_missing_restrictions(restrictions);
  }
  void start();
  void stop(std::function<void()> on_done);
  // Reads the configuration again, and applies its live keys: all of them or nothing.
  void reload();
  const std::vector<std::string>& listen_addresses() const { return api_.listen_addresses(); }
  // The consumers of each snapshot, in order.
  using SnapshotConsumers =
      std::vector<std::pair<std::string_view, std::function<void(const telemetry::SnapshotPtr&)>>>;
  const SnapshotConsumers& snapshot_consumers() const { return snapshot_consumers_; }

 private:
  void add_snapshot_consumers();
  // Whether a GPU is read although it is idle and could be suspended.
  bool is_needed(const DeviceId&);
  std::string quarantine_reason(const DeviceId&) const;  // "": the GPU gets new work
  void notify_ready(const Snapshot&);
  void on_config_loaded(Result<ConfigReloader::LoadedConfig>);
  void on_acknowledged(const andon::Alert&, const andon::Rule&);
  void post_after_response(std::function<void()> work);

  http::IoLoop& loop_;
  const ServeOptions& options_;
  ServiceManager service_manager_ = ServiceManager::of_environment();  // before the first worker
  bool ready_notified_ = false;
  LoopLag loop_lag_;
  DriverLink driver_;
  Workers workers_;
  Recorders recorders_;
  store::StateStore state_;
  MachineMemory machine_memory_;
  EnergyAdapter energy_;
  ControlAdapter control_;
  // Looked up once, before the loop turns: a name service may be slow.
  const processes::SubordinateUids subordinate_uids_ =
      processes::SubordinateUids::of_this_machine();
  LeaseAdapter leases_;
  UsageAdapter usage_;
  AlertAdapter alerts_;
  ConfigReloader config_reloader_;
  ApiServer api_;
  SnapshotConsumers snapshot_consumers_;
  Lifetime lifetime_;
};

}  // namespace gpuyard::daemon
