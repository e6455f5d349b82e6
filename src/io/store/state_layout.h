// The layouts of state.db and of usage.db: all steps that were ever taken, in order. Layout N is
// the first N of them. A released step is never changed; a room adds what it needs next as another
// step at the end.
#pragma once

#include <array>

#include "store/alert_db.h"
#include "store/control_db.h"
#include "store/energy_db.h"
#include "store/lease_tables.h"
#include "store/lease_use_db.h"
#include "store/machine_db.h"
#include "store/token_db.h"
#include "store/unreadable.h"

namespace gpuyard::store {

inline constexpr std::array kStateLayout = {
    kEnergyTables,  kControlTables, kLeaseTables,  kAlertTables,  kAuditSources,    kTokenTables,
    kMachineTables, kAuditByGpu,    kAlertIndexes, kAuditPersons, kUnreadableTables};

// usage.db is a file of its own: a question about a year would hold up the writes that a grant
// waits for.
inline constexpr std::array kUsageLayout = {kLeaseUseTables, kFoldedUse, kUseByLease, kUseByFence};

}  // namespace gpuyard::store
