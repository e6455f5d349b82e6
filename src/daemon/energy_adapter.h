// Joins energy to telemetry, which reads the counters, and to state.db, which keeps its books.
#pragma once

#include "core/energy/meter.h"
#include "core/lease/lease_manager.h"
#include "core/usage/usage_recorder.h"
#include "gpu/telemetry/telemetry.h"
#include "io/store/energy_db.h"
#include "io/store/usage_db.h"

namespace gpuyard::daemon {

class EnergyAdapter final : private energy::FreshReads {
 public:
  // The references outlive the feed.
  EnergyAdapter(Loop&, telemetry::Telemetry&, store::StateStore&);

  energy::Meter& meter() { return meter_; }

 private:
  void fresh(ProbeSet probes, std::function<void(const Snapshot&)> done) override;

  telemetry::Telemetry& telemetry_;
  store::EnergyDb books_;
  energy::Meter meter_;
};

// Joins the use of GPUs under leases to telemetry, which reads the GPUs, to the ledger of energy,
// and to usage.db, which keeps the books.

class UsageAdapter final : private usage::UsageReader {
 public:
  // The references outlive the feed.
  UsageAdapter(Loop&, telemetry::Telemetry&, energy::Meter&, store::StateStore&,
               const lease::Leases&);

  usage::UsageRecorder& book() { return book_; }
  // Called after the meter has had the snapshot.
  void on_snapshot(const Snapshot&);
  // Called for each change that Leases::on_change() tells.
  void on_lease(const lease::Lease& now, lease::State before);

 private:
  void fresh(std::function<void(const usage::UseReadings&)> done) override;
  usage::UseReadings readings_of(const Snapshot&) const;
  void open(const Snapshot&);
  usage::Holding holding_of(const lease::Lease&) const;

  Loop& loop_;
  telemetry::Telemetry& telemetry_;
  energy::Meter& meter_;
  const lease::Leases& leases_;
  store::UsageDb books_;
  usage::UsageRecorder book_;
};

}  // namespace gpuyard::daemon
