// Limits for the users of one machine: the numbers of docs/fairness.md, all in one place.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace gpuyard {

// The limits of one user (the one who owns the subordinate uids) or of one address on TCP. The
// configuration may change them. They do not apply to administrators.
struct UserQuotas {
  std::int64_t connections = 512;       // at a time
  std::int64_t streams = 256;           // connections whose response has no end
  std::int64_t waiting_claims = 200;    // at a time
  std::int64_t claims_a_minute = 600;   // new ones; as many renewals are allowed besides
  std::int64_t changes_a_minute = 240;  // of settings, with a lease or without
};

// Limits that no configuration changes.
namespace limits {

// Connections and streams of one listener, and streams of all; fewer if descriptors are scarce.
inline constexpr std::size_t kMaxConnections = 1536;
inline constexpr std::size_t kMaxStreams = 1024;
inline constexpr std::size_t kMaxTotalStreams = 2048;
// Extra slots beyond these limits and beyond the waiting claims, kept for root and the daemon's own
// user.
inline constexpr std::size_t kReservedSlots = 32;

// Waiting claims of all users together; fewer if descriptors are scarce.
inline constexpr std::size_t kMaxWaitingClaims = 20'000;
// Kinds of claims that keep others waiting behind them: of one user, and of all users.
inline constexpr std::size_t kMaxHeadsPerOwner = 8;
inline constexpr std::size_t kMaxHeads = 64;
// Processes of one user that are being adopted at a time, and processes counted to one lease by
// name.
inline constexpr std::size_t kMaxAdoptionsPerUser = 8;
inline constexpr std::size_t kMaxLeaseMembers = 64;
// Ended leases that are remembered; above it, the oldest of the user with the most are evicted.
inline constexpr std::size_t kMaxEndedLeases = 20'000;
// The size of usage.db, in bytes, above which leases of old days share rows.
inline constexpr std::int64_t kMaxUsageDbBytes = std::int64_t{256} << 20;

// Changes of settings that may wait for one GPU.
inline constexpr std::size_t kMaxQueuedGpuChanges = 64;
// Audit lines that are kept: of each kind, of changes under leases, and of refusals. Lines of
// administrators are kept for kAdministratorAuditRetention, up to
// ControlStorage::kMaxAdministratorEntries of them.
inline constexpr std::int64_t kMaxAuditLines = 10'000;
inline constexpr std::int64_t kMaxLeaseAuditLines = kMaxAuditLines / 2;
inline constexpr std::int64_t kMaxRefusalAuditLines = 1000;
// Audit entries stored about users who may only lease: the tokens that they create and revoke.
inline constexpr std::int64_t kMaxUserAuditLines = kMaxAuditLines / 2;
inline constexpr std::chrono::days kAdministratorAuditRetention{90};
// Refusals of one user that are written down in a minute; the others are only counted.
inline constexpr int kMaxRefusalsPerMinute = 30;
// Actions of one user with control rights that are audited a minute, besides changes of settings: a
// cordon, a silence.
inline constexpr int kMemberActionsPerMinute = 240;
// Addresses whose refusals are counted separately in a minute; all others share one entry.
inline constexpr std::size_t kMaxRefusedAddresses = 16;

// Limits of one turn of the loop: the time for writing long answers and streams, the size of their
// pieces, the rows of the queue that are rendered, and the connections that a listener accepts.
inline constexpr std::chrono::microseconds kTurnBudget{500};
inline constexpr std::size_t kChunkBytes = std::size_t{64} * 1024;
inline constexpr std::size_t kMaxRowsPerTurn = 32;
inline constexpr int kMaxAcceptsPerTurn = 64;

// Queries of the history and of the usage records: at a time, and waiting, of one user or address.
inline constexpr std::size_t kMaxRunningQueries = 2;
inline constexpr std::size_t kMaxQueriesPerUser = 16;

// Work queued for state.db: the total, the part reserved for leases, settings, the daemon and
// administrators, and the share of any other user.
inline constexpr std::size_t kMaxStateTasks = 1024;
inline constexpr std::size_t kReservedStateTasks = kMaxStateTasks / 2;
inline constexpr std::size_t kStateTasksPerUser = 32;
// Settings and audit entries queued for their batched write, as above. One request changes up to 64
// GPUs and writes an entry for each.
inline constexpr std::size_t kMaxControlEntries = 4096;
inline constexpr std::size_t kReservedControlEntries = kMaxControlEntries / 2;
inline constexpr std::size_t kControlEntriesPerUser = 256;

// Requests of one user to create or revoke tokens, a minute.
inline constexpr int kTokenChangesPerMinute = 60;

// Commands that may be starting at a time, and the most time for each start.
inline constexpr int kMaxStartingCommands = 64;
inline constexpr std::chrono::seconds kCommandStartTimeout{5};

}  // namespace limits
}  // namespace gpuyard
