// The migrations of state.db and of usage.db, in order. Schema version N is the first N of them. A
// released migration is never changed; a room adds what it needs next as another at the end.
#pragma once

#include <array>

#include "io/store/alert_db.h"
#include "io/store/control_tables.h"
#include "io/store/energy_db.h"
#include "io/store/lease_tables.h"
#include "io/store/machine_db.h"
#include "io/store/token_db.h"
#include "io/store/unreadable.h"
#include "io/store/usage_db.h"

namespace gpuyard::store {

inline constexpr std::array kStateMigrations = {
    kEnergyTables,  kControlTables, kLeaseTables,  kAlertTables,  kAuditSources,     kTokenTables,
    kMachineTables, kAuditByGpu,    kAlertIndexes, kAuditPersons, kUnreadableTables, kLeasePods};

// usage.db is a file of its own: a query about a year would hold up the writes that a grant waits
// for.
inline constexpr std::array kUsageMigrations = {kUsageTables, kUsageLeaseCounts, kUsageByLease,
                                                kUsageByFence, kUsagePods};

}  // namespace gpuyard::store
