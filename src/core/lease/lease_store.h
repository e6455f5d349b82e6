// Writes decisions to the disk: subscribers are notified only of what is committed. One transaction
// is in flight at a time. Decisions made during it become the next one, so that the disk always
// holds the beginning of what happened.
//
// Thread: io.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/lifetime.h"
#include "base/limits.h"
#include "base/loop.h"
#include "base/retention.h"
#include "core/lease/lease_storage.h"

namespace gpuyard::lease {

using OnLease = std::function<void(Result<Lease>)>;
// Answers with an error, in a later turn of the loop.
void refuse(Loop&, const Error&, const OnLease&);

class LeaseStore {
 public:
  using OnDone = std::function<void(const Result<void>&)>;
  struct Callbacks {
    std::function<void(const Lease& now, LeaseState before)> on_changed;  // on the disk, in order
    // Called when it is not known what the disk holds. Decisions since the last reply are void, and
    // load() shows what holds.
    std::function<void(const Error&)> on_lost;
  };

  // The loop and the storage outlive the store. `quota_owner` returns the quota owner of a uid.
  LeaseStore(Loop& loop, LeaseStorage& storage,
             std::function<std::uint32_t(std::uint32_t)> quota_owner, Callbacks callbacks)
      : loop_(loop),
        storage_(storage),
        quota_owner_(std::move(quota_owner)),
        callbacks_(std::move(callbacks)) {}
  LeaseStore(const LeaseStore&) = delete;
  LeaseStore& operator=(const LeaseStore&) = delete;

  // Drops everything in memory, and reports what the disk holds.
  void load(std::function<void(Result<SavedLeases>)> on_loaded);
  // Accepts the leases that load() reported.
  void accept_loaded(std::vector<Lease>);

  void stage(const Lease&);
  void stage_counters(Ticket last_ticket, Fence last_fence);
  void stage_cordon(const Cordon&);
  void stage_uncordon(const DeviceId&);
  // Calls back when all transactions so far are on the disk, or are lost; never inside the call.
  void when_committed(OnDone);
  // The same, with the lease as it is then on the disk.
  void answer_when_committed(const std::string& id, const OnLease&);

  // Leases as they are on the disk.
  const std::map<std::string, Lease, std::less<>>& committed() const { return committed_; }
  const Lease* find_committed(std::string_view id) const;
  // Returns the lease as it is decided, perhaps not committed yet; valid until the next turn.
  const Lease* find_latest(std::string_view id) const;
  // Returns the leases on the disk that have GPUs, held or draining.
  std::vector<const Lease*> leases_with_gpus() const;
  // Returns messages about faults of the storage.
  std::vector<std::string> notes() const { return storage_.notes(); }

  // Prunes ended leases that are so old that a repeated claim is a new one.
  void prune_ended();
  // Prunes the ended leases of jobs.
  void prune_ended_jobs();
  // The largest number of ended leases that are known.
  static constexpr std::size_t kMaxEndedLeases = limits::kMaxEndedLeases;

 private:
  struct Batch {
    // Shared with the storage, which reads it on another thread once it is in flight.
    std::shared_ptr<LeaseTransaction> transaction = std::make_shared<LeaseTransaction>();
    std::map<std::string, std::size_t, std::less<>> positions = {};  // of leases in the transaction
    std::vector<OnDone> on_committed = {};
    const Lease* find(std::string_view id) const;
    bool has_changes() const;
    bool empty() const { return on_committed.empty() && !has_changes(); }
  };

  void schedule_save();
  void update_indexes(const Lease&, LeaseState before);
  void prune(std::string id);
  void notify_changes(const std::map<std::string, Lease, std::less<>>& before);
  void save();
  void on_saved(const std::shared_ptr<Batch>&, const Result<void>&);
  void discard_uncommitted(const Error&);

  Loop& loop_;
  LeaseStorage& storage_;
  const std::function<std::uint32_t(std::uint32_t)> quota_owner_;
  Callbacks callbacks_;
  std::map<std::string, Lease, std::less<>> committed_;
  std::set<std::string, std::less<>> ids_with_gpus_;  // ids in committed_
  Retention<WallTime> ended_;                         // ended leases in committed_
  Batch next_batch_;
  std::shared_ptr<Batch> batch_in_flight_;
  bool save_scheduled_ = false;
  std::uint64_t generation_ = 0;  // replies to an earlier generation are ignored
  Lifetime lifetime_;
};

}  // namespace gpuyard::lease
