// The energy accounts and windows in state.db.
#pragma once

#include "core/energy/meter.h"
#include "io/store/state_store.h"

namespace gpuyard::store {

// Times are nanoseconds of the boot's clock and milliseconds of the wall's.
inline constexpr const char* kEnergyTables = R"(
CREATE TABLE energy_accounts(
  uuid TEXT NOT NULL,
  simulated INTEGER NOT NULL,
  boot_id TEXT NOT NULL,
  driver TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  first_seen_ms INTEGER NOT NULL,
  epoch_since_ms INTEGER NOT NULL,
  epoch_start_mj INTEGER NOT NULL,
  last_ns INTEGER NOT NULL,
  last_ms INTEGER NOT NULL,
  counter_mj INTEGER,
  unattributed_mj INTEGER NOT NULL,
  daemon_down_mj INTEGER NOT NULL,
  estimated_mj INTEGER NOT NULL,
  unknown_ns INTEGER NOT NULL,
  PRIMARY KEY(uuid, simulated)) WITHOUT ROWID;
CREATE TABLE energy_windows(
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  owner INTEGER NOT NULL,
  boot_id TEXT NOT NULL,
  simulated INTEGER NOT NULL,
  began_ns INTEGER NOT NULL,
  began_ms INTEGER NOT NULL,
  most_ns INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE energy_window_gpus(
  id TEXT NOT NULL,
  place INTEGER NOT NULL,
  uuid TEXT NOT NULL,
  device_mj INTEGER NOT NULL,
  estimated_mj INTEGER NOT NULL,
  unknown_ns INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  taken_ns INTEGER NOT NULL,
  peak_mw INTEGER,
  PRIMARY KEY(id, place)) WITHOUT ROWID;
)";

Result<energy::LedgerState> load_energy(Database&);
Result<void> save_energy(Database&, const energy::EnergyTransaction&);

// Thread: io.
class EnergyDb final : public energy::EnergyStorage {
 public:
  // The store outlives this.
  explicit EnergyDb(StateStore& store) : store_(store) {}

  bool load(std::function<void(Result<energy::LedgerState>)> on_done) override;
  bool save(energy::EnergyTransaction, std::function<void(const Result<void>&)> on_done) override;
  std::vector<std::string> notes() const override { return store_.notes(); }

 private:
  StateStore& store_;
};

}  // namespace gpuyard::store
