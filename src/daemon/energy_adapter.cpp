#include "daemon/energy_adapter.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace gpuyard::daemon {

EnergyAdapter::EnergyAdapter(Loop& loop, telemetry::Telemetry& telemetry, store::StateStore& state)
    : telemetry_(telemetry), books_(state), meter_(loop, *this, books_, boot_id()) {}

void EnergyAdapter::fresh(ProbeSet probes, std::function<void(const Snapshot&)> done) {
  telemetry_.fresh(probes,
                   [done = std::move(done)](const telemetry::SnapshotPtr& read) { done(*read); });
}

namespace {

using lease::Lease;
using lease::State;

std::optional<usage::Level> level_of(const Sample& sample, Metric metric) {
  const Reading* const reading = sample.find(metric);
  if (reading == nullptr || reading->number() == nullptr) return std::nullopt;
  return usage::Level{reading->taken, *reading->number()};
}

std::optional<usage::Counted> counted_of(const std::optional<energy::Booked>& booked) {
  if (!booked) return std::nullopt;
  return usage::Counted{booked->taken, booked->energy_mj, booked->estimated_mj, booked->unknown};
}

}  // namespace

UsageAdapter::UsageAdapter(Loop& loop, telemetry::Telemetry& telemetry, energy::Meter& meter,
                           store::StateStore& state, const lease::Leases& leases)
    : loop_(loop),
      telemetry_(telemetry),
      meter_(meter),
      leases_(leases),
      books_(state),
      book_(loop, *this, books_) {}

usage::UseReadings UsageAdapter::readings_of(const Snapshot& snapshot) const {
  usage::UseReadings readings{snapshot.taken, snapshot.wall};
  const bool simulated = snapshot.driver.info.simulated;
  for (const DeviceState& device : snapshot.devices) {
    readings.gpus.push_back({device.info.id,
                             counted_of(meter_.ledger().booked(device.info.uuid, simulated)),
                             level_of(device.sample, Metric::utilization_gpu),
                             level_of(device.sample, Metric::memory_used)});
  }
  return readings;
}

void UsageAdapter::on_snapshot(const Snapshot& snapshot) {
  book_.observe(readings_of(snapshot));
  if (snapshot.driver.initialised && !leases_.closed()) open(snapshot);
}

// The use of leases in containers counts for the user who owns the container.
usage::Holding UsageAdapter::holding_of(const Lease& lease) const {
  return {lease.id, leases_.person(lease.uid), lease.gpus, lease.granted, lease.fence};
}

// Opens the book with all leases that ever had GPUs, so that their use is known from the start.
void UsageAdapter::open(const Snapshot& snapshot) {
  if (book_.is_open()) return;
  using std::chrono::days;
  usage::UsageRecorder::Found found;
  found.since = std::chrono::floor<days>(loop_.wall());
  found.simulated = snapshot.driver.info.simulated;
  for (const auto& [id, lease] : leases_.leases()) {
    if (!lease.granted_wall) continue;
    found.since = std::min(found.since, std::chrono::floor<days>(*lease.granted_wall));
    if (lease::has_gpus(lease.state)) {
      found.held.push_back(holding_of(lease));
    } else {
      found.over.insert(id);
    }
  }
  book_.open(std::move(found));
}

void UsageAdapter::on_lease(const Lease& now, State before) {
  // A lease may begin and end between two syncs of the disk, and before the next reading.
  const bool begun = now.granted_wall && before == State::waiting;
  if (begun) open(*telemetry_.latest());
  if (begun) book_.begin(holding_of(now));
  if (now.state == State::ended && (begun || lease::has_gpus(before)))
    book_.end(now.id, loop_.now());
}

void UsageAdapter::fresh(std::function<void(const usage::UseReadings&)> done) {
  telemetry_.fresh(energy::kEnergyProbes,
                   [this, done = std::move(done)](const telemetry::SnapshotPtr& read) {
                     meter_.on_snapshot(*read);
                     done(readings_of(*read));
                   });
}

}  // namespace gpuyard::daemon
