// The tables of leasing in state.db: the leases, which GPUs are cordoned, and the counters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/lease/lease_storage.h"
#include "io/store/sqlite.h"

namespace gpuyard::store {

// Times are nanoseconds of the boot clock and milliseconds of the wall clock. Lists are JSON:
// ["GPU-0"], and for processes [[pid, started_ns]]. Only earlier versions write to lease_events.
inline constexpr const char* kLeaseTables = R"(
CREATE TABLE leases(
  id TEXT PRIMARY KEY,
  uid INTEGER NOT NULL,
  state TEXT NOT NULL,
  ending TEXT,
  why TEXT NOT NULL,
  ticket INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  passed INTEGER NOT NULL,
  overdue INTEGER NOT NULL,
  gpus TEXT NOT NULL,
  processes TEXT NOT NULL,
  boot_id TEXT NOT NULL,
  asked_ns INTEGER NOT NULL,
  granted_ns INTEGER NOT NULL,
  until_ns INTEGER,
  asked_ms INTEGER NOT NULL,
  granted_ms INTEGER,
  let_go_ms INTEGER,
  ended_ms INTEGER,
  wanted_gpus INTEGER NOT NULL,
  wanted_free_bytes INTEGER NOT NULL,
  wanted_model TEXT NOT NULL,
  wanted_among TEXT NOT NULL,
  longest_ns INTEGER,
  patience_ns INTEGER,
  binding TEXT NOT NULL,
  ttl_ns INTEGER NOT NULL,
  note TEXT NOT NULL) STRICT;
CREATE INDEX leases_ended ON leases(ended_ms) WHERE state = 'ended';
CREATE TABLE lease_events(
  number INTEGER PRIMARY KEY,
  lease TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  what TEXT NOT NULL,
  by TEXT NOT NULL,
  gpu TEXT NOT NULL) STRICT;
CREATE TABLE lease_cordons(
  gpu TEXT PRIMARY KEY,
  by TEXT NOT NULL,
  reason TEXT NOT NULL,
  since_ms INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE lease_counters(
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
)";

// The pod of a lease, "NAMESPACE/NAME"; "" for all others.
inline constexpr const char* kLeasePods =
    "ALTER TABLE leases ADD COLUMN pod TEXT NOT NULL DEFAULT '';";

struct StoredLeases {
  lease::SavedLeases saved;
  std::uint64_t entries = 0;  // how many were ever committed
  // Nothing is committed to this file yet, and a corrupt one came before it.
  bool replaces_corrupt_file = false;
  // The highest among the leases, including unreadable ones.
  lease::Ticket highest_ticket = 0;
  lease::Fence highest_fence = 0;

  void record(lease::Ticket, lease::Fence);
};

// Returns a fence above any issued before `now`: at most one lease is granted a millisecond.
lease::Fence fence_of(WallTime now);
// Sets aside unreadable leases, alerts, boards and counters: their GPUs are cordoned, and fences
// continue to rise.
Result<StoredLeases> load_leases(Database&);
Result<std::uint64_t> count_entries(Database&);
// Saves it as the transaction of that number.
Result<void> save_leases(Database&, const lease::LeaseTransaction&, std::uint64_t number);
// Deletes all leases and cordons; the counters stay.
Result<void> delete_leases(Database&);

}  // namespace gpuyard::store
