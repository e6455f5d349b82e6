// Joins energy to telemetry, which reads the counters, and to state.db, which stores them.
#pragma once

#include "core/energy/meter.h"
#include "gpu/telemetry/telemetry.h"
#include "io/store/energy_db.h"

namespace gpuyard::daemon {

// Thread: io.
class EnergyAdapter final : private energy::FreshReader {
 public:
  // The references outlive it.
  EnergyAdapter(Loop&, telemetry::Telemetry&, store::StateStore&);

  energy::Meter& meter() { return meter_; }

 private:
  void read_fresh(ProbeSet probes, std::function<void(const Snapshot&)> on_done) override;

  telemetry::Telemetry& telemetry_;
  store::EnergyDb db_;
  energy::Meter meter_;
};

}  // namespace gpuyard::daemon
