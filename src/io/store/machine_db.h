// The known boards of the machine, in state.db.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gpu/device/known_board.h"
#include "io/store/state_store.h"

namespace gpuyard::store {

// `machine` keeps apart what one state directory may have seen: the GPUs of this machine, those of
// another NVML, simulated ones. Times are milliseconds of the wall clock; the processes that a
// contained memory error has hit are JSON: [4711,4712].
inline constexpr const char* kMachineTables = R"(
CREATE TABLE machine_boards(
  machine TEXT NOT NULL,
  uuid TEXT NOT NULL,
  gpu_index INTEGER NOT NULL,
  pci_address TEXT NOT NULL,
  name TEXT NOT NULL,
  listed INTEGER NOT NULL,
  first_seen_ms INTEGER NOT NULL,
  last_seen_ms INTEGER NOT NULL,
  boot_id TEXT NOT NULL,
  ecc_source TEXT,
  ecc_base INTEGER NOT NULL,
  ecc_total INTEGER NOT NULL,
  ecc_since_load INTEGER,
  ecc_contained INTEGER NOT NULL,
  ecc_waiting TEXT NOT NULL,
  ecc_suspects TEXT NOT NULL,
  PRIMARY KEY(machine, uuid)) STRICT, WITHOUT ROWID;
)";

// The boards of one machine that came or changed, and those that were taken out for good.
struct MachineTransaction {
  std::string machine;
  std::vector<KnownBoard> boards = {};
  std::vector<std::string> taken_out = {};  // UUIDs
  // Machines whose names begin with this and differ from `machine` are removed; empty: none.
  std::string replaces = {};
};

Result<std::vector<KnownBoard>> load_boards(Database&, const std::string& machine);
// Sets aside unreadable boards of any machine; load_boards() does so, too.
Result<void> set_aside_bad_boards(Database&);
Result<void> save_boards(Database&, const MachineTransaction&);

// Thread: io.
class MachineDb {
 public:
  // The store outlives this.
  explicit MachineDb(StateStore& store) : store_(store) {}

  // Each returns false, and does nothing, if too much waits for the disk already. A callback never
  // runs inside the call.
  bool load(const std::string& machine,
            std::function<void(Result<std::vector<KnownBoard>>)> on_done);
  bool save(MachineTransaction, Durability, std::function<void(const Result<void>&)> on_done);

 private:
  StateStore& store_;
};

}  // namespace gpuyard::store
