// Joins leases to the driver's lists of processes and /proc, to telemetry, to control, to the
// event log, and to state.db.
#pragma once

#include <memory>
#include <string>

#include "base/loop.h"
#include "base/worker.h"
#include "core/control/setting_controller.h"
#include "core/lease/lease_manager.h"
#include "core/processes/mark_client.h"
#include "core/processes/subordinate_uids.h"
#include "daemon/config/config.h"
#include "daemon/lease_observer.h"
#include "daemon/lease_settings_restorer.h"
#include "gpu/device/snapshot.h"
#include "gpu/events/event_log.h"
#include "gpu/telemetry/telemetry.h"
#include "io/store/lease_db.h"

namespace gpuyard::daemon {

// Thread: io.
class LeaseAdapter {
 public:
  // The references outlive it. `recorded`: the driver's lists come from a recording.
  LeaseAdapter(Loop&, Worker& query_worker, telemetry::Telemetry&, control::SettingController&,
               events::EventLog&, store::StateStore&, const config::Config&,
               const processes::SubordinateUids&, bool recorded,
               std::shared_ptr<processes::MarkClient> marks);

  lease::LeaseManager& leases() { return leases_; }
  // Called before the daemon listens.
  void connect_marks() { marks_->connect(); }
  void start() { leases_.start(); }
  // Returns why other users' environments cannot be read now; "" if they can.
  std::string marks_error() const { return marks_->error_text(); }
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
  events::EventLog& event_log_;
  const std::shared_ptr<processes::MarkClient> marks_;
  LeaseObserver observer_;
  store::LeaseDb db_;
  lease::LeaseManager leases_;
  LeaseSettingsRestorer settings_restorer_;
  std::function<void(const lease::Lease&, lease::LeaseState)> on_change_;
  TimePoint newest_list_at_{};
};

}  // namespace gpuyard::daemon
