#include "daemon/usage_adapter.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "io/store/migrations.h"

namespace gpuyard::daemon {
namespace {

using lease::Lease;
using lease::LeaseState;

std::optional<usage::GaugeValue> gauge_value_of(const Sample& sample, Metric metric) {
  const Reading* const reading = sample.find(metric);
  if (reading == nullptr || reading->number() == nullptr) return std::nullopt;
  return usage::GaugeValue{reading->taken, *reading->number()};
}

}  // namespace

UsageAdapter::UsageAdapter(Loop& loop, telemetry::Telemetry& telemetry, energy::Meter& meter,
                           Worker& worker, const std::string& state_directory,
                           const lease::LeaseManager& leases)
    : loop_(loop),
      telemetry_(telemetry),
      meter_(meter),
      leases_(leases),
      store_(worker, worker, state_directory + "/usage.db", store::kUsageMigrations),
      db_(store_),
      recorder_(loop, *this, db_) {}

usage::UsageSnapshot UsageAdapter::readings_of(const Snapshot& snapshot) const {
  usage::UsageSnapshot readings{snapshot.taken, snapshot.wall};
  const bool simulated = snapshot.driver.info.simulated;
  for (const DeviceState& device : snapshot.devices) {
    readings.gpus.push_back({device.info.id,
                             meter_.ledger().booked_energy(device.info.uuid, simulated),
                             gauge_value_of(device.sample, Metric::utilization_gpu),
                             gauge_value_of(device.sample, Metric::memory_used)});
  }
  readings.max_step = max_step(snapshot);
  return readings;
}

void UsageAdapter::on_snapshot(const Snapshot& snapshot) {
  recorder_.record(readings_of(snapshot));
  if (snapshot.driver.initialised && !leases_.grant_error()) open_recorder(snapshot);
}

// The use of leases in containers counts for the user who owns the container.
usage::LeaseGrant UsageAdapter::grant_of(const Lease& lease) const {
  return {lease.id, leases_.quota_owner(lease.uid), lease.gpus, lease.granted_at, lease.fence,
          lease.pod};
}

// Opens the recorder with all leases that ever had GPUs, so that their use is known from the start.
void UsageAdapter::open_recorder(const Snapshot& snapshot) {
  if (recorder_.is_open()) return;
  using std::chrono::days;
  usage::UsageRecorder::InitialLeases found;
  found.since = std::chrono::floor<days>(loop_.wall());
  found.simulated = snapshot.driver.info.simulated;
  for (const auto& [id, lease] : leases_.leases()) {
    if (!lease.granted_wall) continue;
    found.since = std::min(found.since, std::chrono::floor<days>(*lease.granted_wall));
    if (lease::has_gpus(lease.state)) {
      found.held.push_back(grant_of(lease));
    } else {
      found.ended.insert(id);
    }
  }
  recorder_.open(std::move(found));
}

void UsageAdapter::on_lease_change(const Lease& now, LeaseState before) {
  // A lease may begin and end between two syncs of the disk, and before the next reading.
  const bool begun = now.granted_wall && before == LeaseState::waiting;
  if (begun) open_recorder(*telemetry_.latest());
  if (begun) recorder_.begin(grant_of(now));
  if (now.state == LeaseState::ended && (begun || lease::has_gpus(before)))
    recorder_.end(grant_of(now), loop_.now());
}

void UsageAdapter::read_fresh(const std::vector<DeviceId>& gpus,
                              std::function<void(const usage::UsageSnapshot&)> on_done) {
  telemetry_.read_fresh(energy::kEnergyProbes, gpus,
                        [this, on_done = std::move(on_done)](const telemetry::SnapshotPtr& read) {
                          meter_.on_snapshot(*read);
                          on_done(readings_of(*read));
                        });
}

}  // namespace gpuyard::daemon
