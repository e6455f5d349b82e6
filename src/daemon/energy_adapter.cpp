#include "daemon/energy_adapter.h"

#include <utility>

#include "base/proc_stat.h"

namespace gpuyard::daemon {

EnergyAdapter::EnergyAdapter(Loop& loop, telemetry::Telemetry& telemetry, store::StateStore& state)
    : telemetry_(telemetry), db_(state), meter_(loop, *this, db_, boot_id()) {}

void EnergyAdapter::read_fresh(ProbeSet probes, std::function<void(const Snapshot&)> on_done) {
  telemetry_.read_fresh(probes, [on_done = std::move(on_done)](const telemetry::SnapshotPtr& read) {
    on_done(*read);
  });
}

}  // namespace gpuyard::daemon
