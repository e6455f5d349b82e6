// A lease as a row of state.db. Reads strictly: what this program would not have written is an
// error, because to guess would hand out a GPU twice, or never again.
#pragma once

#include <string>

#include "lease/lease.h"
#include "store/sqlite.h"

namespace gpuyard::store {

// The columns of the table 'leases' in order, as lease_of() and bind_lease() know them.
inline constexpr const char* kLeaseColumns =
    "id, uid, state, ending, why, ticket, fence, passed, overdue, gpus, processes, boot_id, "
    "asked_ns, granted_ns, until_ns, asked_ms, granted_ms, let_go_ms, ended_ms, wanted_gpus, "
    "wanted_free_bytes, wanted_model, wanted_among, longest_ns, patience_ns, binding, ttl_ns, note";
inline constexpr int kLeaseColumnCount = 28;

// Its columns as the parameters from 1 on.
void bind_lease(Statement&, const lease::Lease&);
// Errc::conflict says which column makes no sense.
Result<lease::Lease> lease_of(const Statement& row);

}  // namespace gpuyard::store
