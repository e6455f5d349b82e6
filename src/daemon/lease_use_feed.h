// Joins what is used under leases to who counts it: telemetry, which reads the GPUs, the ledger of
// energy, and usage.db, which keeps the books.
#pragma once

#include "energy/meter.h"
#include "lease/leases.h"
#include "lease/use.h"
#include "store/lease_use_db.h"
#include "telemetry/telemetry.h"

namespace gpuyard::daemon {

class LeaseUseFeed final : private lease::UseReads {
 public:
  // These outlive the feed.
  LeaseUseFeed(Loop&, telemetry::Telemetry&, energy::Meter&, store::StateStore&,
               const lease::Leases&);

  lease::UseBook& book() { return book_; }
  // After the meter has had it.
  void on_snapshot(const Snapshot&);
  // Of Leases::on_change().
  void on_lease(const lease::Lease& now, lease::State before);

 private:
  void fresh(std::function<void(const lease::UseReadings&)> done) override;
  lease::UseReadings readings_of(const Snapshot&) const;
  void open(const Snapshot&);
  lease::Holding holding_of(const lease::Lease&) const;

  Loop& loop_;
  telemetry::Telemetry& telemetry_;
  energy::Meter& meter_;
  const lease::Leases& leases_;
  store::LeaseUseDb books_;
  lease::UseBook book_;
};

}  // namespace gpuyard::daemon
