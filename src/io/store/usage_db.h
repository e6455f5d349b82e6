// The use of GPUs under leases, in usage.db.
#pragma once

#include <atomic>
#include <memory>

#include "base/limits.h"
#include "core/usage/usage_recorder.h"
#include "io/store/state_store.h"

namespace gpuyard::store {

// A day is the number of days since 1970 in UTC; times are nanoseconds. The lease "" means no
// lease.
inline constexpr const char* kUsageTables = R"(
CREATE TABLE lease_use(
  day INTEGER NOT NULL,
  lease TEXT NOT NULL,
  gpu TEXT NOT NULL,
  simulated INTEGER NOT NULL,
  uid INTEGER NOT NULL,
  held_ns INTEGER NOT NULL,
  counted_ns INTEGER NOT NULL,
  energy_mj INTEGER NOT NULL,
  estimated_mj INTEGER NOT NULL,
  watched_ns INTEGER NOT NULL,
  busy_ns INTEGER NOT NULL,
  peak_bytes INTEGER,
  PRIMARY KEY(day, lease, gpu, simulated)) STRICT, WITHOUT ROWID;
)";

// The number of leases that share a row; the `lease` of a shared row is "folded:UID".
inline constexpr const char* kUsageLeaseCounts =
    "ALTER TABLE lease_use ADD COLUMN leases INTEGER NOT NULL DEFAULT 1;";

// The index that finds a lease's rows of other days.
inline constexpr const char* kUsageByLease = "CREATE INDEX lease_use_lease ON lease_use(lease);";

// The id of a removed lease may be claimed again: the fence tells its rows from each other. The
// columns of the key stand first: quick_check of SQLite 3.40 takes columns between them for NULL in
// a table without row ids.
inline constexpr const char* kUsageByFence = R"(
CREATE TABLE lease_use_by_fence(
  day INTEGER NOT NULL,
  lease TEXT NOT NULL,
  gpu TEXT NOT NULL,
  simulated INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  uid INTEGER NOT NULL,
  held_ns INTEGER NOT NULL,
  counted_ns INTEGER NOT NULL,
  energy_mj INTEGER NOT NULL,
  estimated_mj INTEGER NOT NULL,
  watched_ns INTEGER NOT NULL,
  busy_ns INTEGER NOT NULL,
  peak_bytes INTEGER,
  leases INTEGER NOT NULL,
  PRIMARY KEY(day, lease, gpu, simulated, fence)) STRICT, WITHOUT ROWID;
INSERT INTO lease_use_by_fence SELECT day, lease, gpu, simulated, 0, uid, held_ns, counted_ns,
  energy_mj, estimated_mj, watched_ns, busy_ns, peak_bytes, leases FROM lease_use;
DROP TABLE lease_use;
ALTER TABLE lease_use_by_fence RENAME TO lease_use;
CREATE INDEX lease_use_lease ON lease_use(lease);
)";

// The pod of a lease, "NAMESPACE/NAME"; "" of other leases, of none, and in shared rows.
inline constexpr const char* kUsagePods =
    "ALTER TABLE lease_use ADD COLUMN pod TEXT NOT NULL DEFAULT '';";

Result<std::vector<usage::UsageRow>> load_usage(Database&, usage::Day since,
                                                const std::set<std::string>& leases);
Result<void> save_usage(Database&, const std::vector<usage::UsageRow>&);
// Adds these saved rows to the rows that their users' small leases share.
Result<void> compact_usage(Database&, const std::vector<usage::UsageRow>&);
// Prunes all but the newest `days` days on which something was used.
Result<void> prune_usage(Database&, std::int64_t days);
// Takes the user with most rows of leases that do not grow, and compacts those of the user's oldest
// day into one for each GPU. False if no user has such rows.
Result<bool> compact_oldest_usage(Database&, const std::set<std::string>& growing);
// Answers as if `unsaved` were saved, but does not save it. Called inside a transaction.
Result<usage::UsageReport> sum_usage(Database&, const usage::UsageQuery&,
                                     const std::vector<usage::UsageRow>& unsaved);

// Thread: io.
class UsageDb final : public usage::UsageStorage {
 public:
  // The size of usage.db in bytes beyond which ended leases share rows, those of the oldest days
  // first.
  static constexpr std::int64_t kMaxBytes = limits::kMaxUsageDbBytes;

  // The store outlives this.
  explicit UsageDb(StateStore& store, std::int64_t max_bytes = kMaxBytes)
      : store_(store), max_bytes_(max_bytes) {}

  bool load(usage::Day since, std::set<std::string> leases,
            std::function<void(Result<std::vector<usage::UsageRow>>)> on_done) override;
  bool save(usage::UsageTransaction, std::function<void(const Result<void>&)> on_done) override;
  bool query(usage::UsageQuery, std::vector<usage::UsageRow> unsaved,
             std::function<void(Result<usage::UsageReport>)> on_done) override;
  std::vector<std::string> notes() const override;

 private:
  StateStore& store_;
  const std::int64_t max_bytes_;
  struct Compaction {
    std::atomic<bool> needed = false;    // the file was too large
    std::atomic<int> saves_to_skip = 0;  // saves left without a try: nothing was left to compact
  };
  // Used by the worker's thread only.
  std::shared_ptr<Compaction> compaction_ = std::make_shared<Compaction>();
};

}  // namespace gpuyard::store
