// Joins the use of GPUs under leases to telemetry, which reads the GPUs, to the ledger of energy,
// and to usage.db, which stores it.
#pragma once

#include <functional>
#include <string>

#include "base/loop.h"
#include "base/worker.h"
#include "core/energy/meter.h"
#include "core/lease/lease_manager.h"
#include "core/usage/usage_recorder.h"
#include "gpu/telemetry/telemetry.h"
#include "io/store/state_store.h"
#include "io/store/usage_db.h"

namespace gpuyard::daemon {

// Thread: io.
class UsageAdapter final : private usage::UsageReader {
 public:
  // The references outlive it. `worker` reads and writes usage.db.
  UsageAdapter(Loop&, telemetry::Telemetry&, energy::Meter&, Worker& worker,
               const std::string& state_directory, const lease::LeaseManager&);

  usage::UsageRecorder& recorder() { return recorder_; }
  // Called after the meter has had the snapshot.
  void on_snapshot(const Snapshot&);
  // Called for each change of a lease that LeaseAdapter reports.
  void on_lease_change(const lease::Lease& now, lease::LeaseState before);

 private:
  void read_fresh(const std::vector<DeviceId>& gpus,
                  std::function<void(const usage::UsageSnapshot&)> on_done) override;
  usage::UsageSnapshot readings_of(const Snapshot&) const;
  void open_recorder(const Snapshot&);
  usage::LeaseGrant grant_of(const lease::Lease&) const;

  Loop& loop_;
  telemetry::Telemetry& telemetry_;
  energy::Meter& meter_;
  const lease::LeaseManager& leases_;
  store::StateStore store_;
  store::UsageDb db_;
  usage::UsageRecorder recorder_;
};

}  // namespace gpuyard::daemon
