// Read-only access to leases, the queue and their state.
//
// Thread: io.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/lease/drain_monitor.h"
#include "core/lease/lease_parts.h"

namespace gpuyard::lease {

struct QueueEntry {
  std::string lease;
  QueuePosition queue_position;
};

class LeaseReader {
 public:
  // A lease that drains for longer than this is shown in notes().
  static constexpr Duration kLongDrainThreshold = std::chrono::seconds(30);

  // Both outlive the reader, and may be constructed later.
  LeaseReader(const LeaseParts& parts, const DrainMonitor& drains)
      : state_(parts), drain_monitor_(drains) {}

  // Leases as they are on the disk: all that are not pruned yet.
  const std::map<std::string, Lease, std::less<>>& leases() const {
    return state_.store.committed();
  }
  // Returns the leases on the disk that have GPUs.
  std::vector<const Lease*> leases_with_gpus() const { return state_.store.leases_with_gpus(); }
  const Lease* find(std::string_view id) const { return state_.store.find_committed(id); }
  // Returns the user for whom the leases of a uid count.
  std::uint32_t quota_owner(std::uint32_t uid) const { return state_.quotas.quota_owner(uid); }
  // Returns the lease as it is stored, or will be once pending writes complete.
  const Lease* find_latest(std::string_view id) const { return state_.store.find_latest(id); }
  // Checks that the lease is held, with this fence, and has the GPU. Errors: not_found, conflict;
  // unavailable until the leases have been read.
  Result<void> check_holds_gpu(std::string_view id, std::optional<Fence>, const DeviceId&) const;
  std::vector<QueueEntry> queue_entries(std::size_t limit) const;
  // "the limit is 2 GPUs per user"
  std::string limit_text() const { return state_.quotas.gpu_limit_text(); }
  const GpuPool& gpus() const { return state_.gpus; }
  std::size_t waiting_claim_count() const { return state_.scheduler.waiting_claims().size(); }
  // Returns the number of all grants, ever.
  Fence last_fence() const { return state_.scheduler.last_fence(); }
  bool is_leased(const DeviceId& gpu) const { return state_.gpus.is_leased(gpu); }
  // Whether the stored leases have been read since the start.
  bool has_loaded() const { return state_.readiness.has_loaded(); }
  // Whether the storage is currently unreadable or unwritable.
  bool has_store_error() const { return state_.readiness.has_store_error(); }
  // Returns why nothing is granted now, if that is so.
  std::optional<Error> grant_error() const { return state_.readiness.grant_error(); }
  // Returns why no claim is accepted now, not even one that would wait.
  std::optional<Error> claim_error() const { return state_.readiness.claim_error(); }
  std::vector<std::string> notes() const;
  // Returns the last lease of a job that is on the disk.
  const Lease* find_job(std::string_view name) const;
  // Whether the lease drains because of a process or memory that was seen; if not, it may be
  // unknown what is left.
  bool has_leftover(std::string_view id) const { return drain_monitor_.has_leftover(id); }

 private:
  const LeaseParts& state_;
  const DrainMonitor& drain_monitor_;
};

}  // namespace gpuyard::lease
