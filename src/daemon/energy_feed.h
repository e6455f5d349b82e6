// Joins energy to telemetry, which reads for it, and to state.db, which keeps its books.
#pragma once

#include "energy/meter.h"
#include "store/energy_db.h"
#include "telemetry/telemetry.h"

namespace gpuyard::daemon {

class EnergyFeed final : private energy::FreshReads {
 public:
  // These outlive the feed.
  EnergyFeed(Loop&, telemetry::Telemetry&, store::StateStore&);

  energy::Meter& meter() { return meter_; }

 private:
  void fresh(ProbeSet probes, std::function<void(const Snapshot&)> done) override;

  telemetry::Telemetry& telemetry_;
  store::EnergyDb books_;
  energy::Meter meter_;
};

}  // namespace gpuyard::daemon
