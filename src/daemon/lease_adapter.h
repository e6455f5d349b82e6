// Joins leases to the driver's lists of processes and /proc, to telemetry, to control, to the
// event log, and to state.db.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "base/worker.h"
#include "core/control/setting_controller.h"
#include "core/lease/lease_manager.h"
#include "core/processes/users.h"
#include "daemon/config/config.h"
#include "daemon/lease_observer.h"
#include "gpu/device/snapshot.h"
#include "gpu/events/event_collector.h"
#include "gpu/telemetry/telemetry.h"
#include "io/store/lease_db.h"

namespace gpuyard::daemon {

// Restores what was set with a lease when that lease is over, even after a crash. Derives what is
// to be restored from the settings in force, not from memory.

class LeaseSettingsRestorer {
 public:
  // The delay before settings are restored again after a failure.
  static constexpr Duration kRetryDelay = std::chrono::seconds(10);

  // The references outlive it.
  LeaseSettingsRestorer(Loop& loop, control::SettingController& control,
                        const lease::LeaseManager& leases)
      : loop_(loop), control_(control), leases_(leases) {}

  // Restores the settings of leases that are over. Cheap: called at each reading.
  void restore_ended();
  // Returns what is still set of the GPUs of a draining lease, for people; nothing: all is
  // restored.
  std::optional<std::string> unrestored_text(const lease::Lease&) const;

 private:
  std::set<std::string> orphaned_owners(const DeviceId&) const;
  void restore(const DeviceId&, const std::string& owner);

  Loop& loop_;
  control::SettingController& control_;
  const lease::LeaseManager& leases_;
  std::set<std::pair<DeviceId, std::string>> pending_;
  TimePoint not_before_{};
  Lifetime lifetime_;
};

class LeaseAdapter {
 public:
  // The references outlive it. `recorded`: the driver's lists come from a recording.
  LeaseAdapter(Loop&, Worker& query_worker, telemetry::Telemetry&, control::SettingController&,
               events::EventLog&, store::StateStore&, const config::Config&,
               const processes::SubordinateUids&, bool recorded,
               std::shared_ptr<processes::MarkClient> marks);

  lease::LeaseManager& leases() { return leases_; }
  void start() { leases_.start(); }
  // Returns why a GPU that is fit gets no new work, or "" if it does.
  using QuarantineReason = std::function<std::string(const DeviceId&)>;
  void on_snapshot(const Snapshot&, const QuarantineReason& quarantined);
  // One callback, called after the settings of the changed lease were checked.
  void set_on_change(
      std::function<void(const lease::Lease& now, lease::LeaseState before)> callback) {
    on_change_ = std::move(callback);
  }

 private:
  void record_unleased_process(const DeviceId&, const lease::ObservedProcess&);

  Loop& loop_;
  telemetry::Telemetry& telemetry_;
  events::EventLog& event_log_;
  LeaseObserver observer_;
  store::LeaseDb db_;
  lease::LeaseManager leases_;
  LeaseSettingsRestorer settings_restorer_;
  std::function<void(const lease::Lease&, lease::LeaseState)> on_change_;
  TimePoint newest_list_at_{};
};

// The GPUs of a snapshot, as leasing sees them: which may be granted, and how they are linked.

// Returns one for each GPU of the snapshot, in its order. A GPU that is withheld has the
// reason as a word: lost, unresponsive, unhealthy or mig_enabled.
std::vector<lease::PoolGpu> pool_gpus(const Snapshot&);

// Returns the memory of processes that only draw, as far as it is known, up to what a screen needs.
// More than that means a process that computes with a drawing API.
std::int64_t drawing_bytes(const DeviceState&);

}  // namespace gpuyard::daemon
