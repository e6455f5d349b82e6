// Joins leases to the driver's lists of processes and /proc, to telemetry, to control, to the
// journal of events, and to state.db.
#pragma once

#include "base/worker.h"
#include "daemon/config/config.h"
#include "daemon/lease_observer.h"
#include "daemon/lease_settings.h"
#include "events/journal.h"
#include "lease/leases.h"
#include "processes/subordinate_uids.h"
#include "store/lease_db.h"
#include "telemetry/telemetry.h"

namespace gpuyard::daemon {

class LeaseFeed {
 public:
  // These outlive the feed. `recorded`: the driver's lists are a recording's.
  LeaseFeed(Loop&, Worker& query, telemetry::Telemetry&, control::Control&, events::Journal&,
            store::StateStore&, const config::Config&, const processes::SubordinateUids&,
            bool recorded);

  lease::Leases& leases() { return leases_; }
  void start() { leases_.start(); }
  // `quarantined`: why a GPU gets no new work, though it is fit; "" if it does.
  using Quarantined = std::function<std::string(const DeviceId&)>;
  void on_snapshot(const Snapshot&, const Quarantined& quarantined);
  // One listener, told after the settings of the lease were looked at.
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
  LeaseSettings settings_;
  std::function<void(const lease::Lease&, lease::State)> told_;
  TimePoint newest_list_{};
};

}  // namespace gpuyard::daemon
