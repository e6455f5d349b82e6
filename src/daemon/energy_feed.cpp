#include "daemon/energy_feed.h"

#include <utility>

#include "base/boot.h"

namespace gpuyard::daemon {

EnergyFeed::EnergyFeed(Loop& loop, telemetry::Telemetry& telemetry, store::StateStore& state)
    : telemetry_(telemetry), books_(state), meter_(loop, *this, books_, boot_id()) {}

void EnergyFeed::fresh(ProbeSet probes, std::function<void(const Snapshot&)> done) {
  telemetry_.fresh(probes,
                   [done = std::move(done)](const telemetry::SnapshotPtr& read) { done(*read); });
}

}  // namespace gpuyard::daemon
