// Joins leases to the driver's lists of processes and /proc, to telemetry, to control, to the
// journal of events, and to state.db.
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
  // How long after a failure settings are restored again.
  static constexpr Duration kAgain = std::chrono::seconds(10);

  // The references outlive it.
  LeaseSettingsRestorer(Loop& loop, control::Control& control, const lease::Leases& leases)
      : loop_(loop), control_(control), leases_(leases) {}

  // Restores the settings of leases that are over. Cheap: called at each reading.
  void look();
  // Returns what is still set of the GPUs of a draining lease, for people; nothing: all is
  // restored.
  std::optional<std::string> left(const lease::Lease&) const;

 private:
  std::set<std::string> orphans(const DeviceId&) const;
  void put_back(const DeviceId&, const std::string& owner);

  Loop& loop_;
  control::Control& control_;
  const lease::Leases& leases_;
  std::set<std::pair<DeviceId, std::string>> under_way_;
  TimePoint not_before_{};
  Lifetime here_;
};

class LeaseAdapter {
 public:
  // The references outlive the feed. `recorded`: the driver's lists come from a recording.
  LeaseAdapter(Loop&, Worker& query, telemetry::Telemetry&, control::Control&, events::Journal&,
               store::StateStore&, const config::Config&, const processes::SubordinateUids&,
               bool recorded, std::shared_ptr<processes::MarkClient> marks);

  lease::Leases& leases() { return leases_; }
  void start() { leases_.start(); }
  // Returns why a GPU that is fit gets no new work, or "" if it does.
  using Quarantined = std::function<std::string(const DeviceId&)>;
  void on_snapshot(const Snapshot&, const Quarantined& quarantined);
  // One listener, told of a change after the settings of the lease were looked at.
  void on_change(std::function<void(const lease::Lease& now, lease::State before)> told) {
    told_ = std::move(told);
  }

 private:
  void tell_of_squatter(const DeviceId&, const lease::Seen&);

  Loop& loop_;
  telemetry::Telemetry& telemetry_;
  events::Journal& journal_;
  LeaseObserver observer_;
  store::LeaseDb books_;
  lease::Leases leases_;
  LeaseSettingsRestorer settings_;
  std::function<void(const lease::Lease&, lease::State)> told_;
  TimePoint newest_list_{};
};

// The GPUs of a snapshot, as leasing sees them: which may be handed out, and how they are linked.

// Returns one for each GPU of the snapshot, in its order. A GPU that may not be handed out has the
// reason as a word: lost, unresponsive, unhealthy or mig_enabled.
std::vector<lease::PoolGpu> pool_gpus(const Snapshot&);

// Returns the memory of processes that only draw, as far as it is known, up to what a screen needs.
// More than that means a process that computes with a drawing API.
std::int64_t drawing_bytes(const DeviceState&);

}  // namespace gpuyard::daemon
