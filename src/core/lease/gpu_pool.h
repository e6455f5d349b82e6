// The GPUs as leasing sees them: which slot of the scheduler each has, and why one is withheld.
// Pure state.
//
// Thread: io.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/lease/allocator.h"
#include "core/lease/hidden_work.h"
#include "core/lease/lease_storage.h"
#include "core/lease/process_observer.h"
#include "core/lease/scheduler.h"
#include "core/lease/unleased_processes.h"

namespace gpuyard::lease {

// Withheld because something that should be known is not.
inline constexpr std::string_view kUnknown = "unknown";
// Withheld because it is used by a process that cannot be seen.
inline constexpr std::string_view kInUse = "in_use";

// A GPU as telemetry knows it.
struct PoolGpu {
  DeviceInfo info;
  std::optional<unsigned> clique = {};  // a set of GPUs that are all linked with each other
  std::optional<unsigned> numa_node = {};
  // Why it may not be leased: "lost", "mig_enabled", kUnknown, ...; "" if it may.
  std::string withheld = {};
  std::string text = {};  // the same as a sentence
  bool is_split = false;  // in MIG mode: its processes share it on purpose
  std::optional<std::int64_t> total_bytes = {};
  std::optional<std::int64_t> free_bytes = {};
  bool reports_memory = true;       // false: the GPU has no such reading
  bool lists_processes = true;      // false: the GPU has no such list
  std::int64_t graphics_bytes = 0;  // used by processes that only draw on a screen
  // The newest reading of its activity; nothing if a listed process accounts for it.
  std::optional<Activity> activity = {};
  std::optional<std::int64_t> temperature_c = {};
};

// The reason as a word and as a sentence.
using WithheldReason = std::pair<std::string, std::string>;

class GpuPool {
 public:
  // A driver itself uses less than a GPU's memory divided by this. More memory, beyond drawing,
  // means a process, listed or not: a container does not see its neighbours' processes.
  static constexpr std::int64_t kIdleMemoryDivisor = 10;

  explicit GpuPool(Scheduler& scheduler) : scheduler_(scheduler) {}

  // The largest age of a reading of a GPU when it arrives.
  static constexpr Duration kMaxReadingAge = std::chrono::seconds(2);

  // Accepts all present GPUs. Removes one that is gone and not leased.
  void update_gpus(const std::vector<PoolGpu>&, TimePoint now);
  // Returns the slot of a GPU that a lease has, even before update_gpus() has named the GPU.
  std::optional<Slot> slot_of(const DeviceId&);
  void cordon(Cordon);
  // Ends the GPU's own cordon, and exempts it from the cordon of all GPUs. Returns what must be
  // stored about this.
  std::optional<Cordon> uncordon(const DeviceId&, const std::string& by, WallTime now);
  // Returns the GPU's own cordon merged with that of all GPUs.
  std::optional<Cordon> cordon_of(const DeviceId&) const;
  // Leases the GPU although it is withheld for this word, kUnknown or kInUse, until it is withheld
  // for no reason or for another one.
  void override_withholding(const DeviceId& gpu, const std::string& word);
  // Leases no GPU from now on: this allocator has the GPUs. No process is unleased before
  // record_report().
  void observe_only(Allocator);
  // The allocator has reported since the daemon's start: what it gave to no job is known.
  void record_report() { has_report_ = true; }
  // Whether unleased() can be complete.
  bool knows_unleased() const { return !allocator_ || has_report_; }
  // Returns the one that has the GPUs; nothing while gpuyard leases them.
  std::optional<Allocator> allocator() const { return allocator_; }
  // Each GPU must have its processes checked before it is in service again.
  void stop_observing();
  // Accepts an observation of a GPU, which is not granted before that. Returns its known unleased
  // processes that were not there before.
  std::vector<ObservedProcess> observe(const DeviceId&, const Observation&, TimePoint now);
  // Records that a lease of this GPU has ended: what was read of it before is old.
  void mark_freed(const DeviceId& gpu, TimePoint now) { freed_at_[gpu] = now; }
  // Returns the fit GPUs that were not observed yet.
  std::vector<DeviceId> unobserved() const;
  // Whether the GPU is known, and nothing of its own withholds it.
  bool is_fit(const DeviceId&) const;
  // Whether the GPU is gone or unreachable. Such a GPU has no used memory, and is not granted.
  bool is_lost(const DeviceId&) const;
  bool is_leased(const DeviceId&) const;
  // Returns how much memory was used while no process used the GPU; nothing: not known.
  std::optional<std::int64_t> idle_bytes(const DeviceId&) const;
  // Starts over with a new scheduler: every GPU gets a new slot, and cordons have to be set again.
  void reassign_slots();

  GpuAvailability availability(const DeviceId&) const;
  GpuSet eligible_gpus(const LeaseSpec&) const;
  std::vector<DeviceId> ids_of(const GpuSet&) const;  // in the order of their indexes
  std::optional<WithheldReason> withheld_reason(const DeviceId&) const;

  const std::map<DeviceId, Slot>& slots() const { return slots_; }
  std::vector<DeviceId> ids() const;  // GPUs that have a slot
  const std::map<DeviceId, PoolGpu>& gpus() const { return gpus_; }
  const UnleasedProcesses& unleased() const { return unleased_; }
  bool is_complete() const { return is_complete_; }  // update_gpus() was called

 private:
  void assign_slot(const PoolGpu&);
  void update_activity(const PoolGpu&);
  // Returns why it is withheld, regardless of overrides: by facts of the GPU itself, or by its use.
  std::optional<WithheldReason> own_withheld_reason(const PoolGpu&) const;
  std::optional<WithheldReason> hidden_use(const DeviceId&) const;
  bool is_overridden(const DeviceId&, std::string_view word) const;
  void drop_unneeded_override(const DeviceId&);

  Scheduler& scheduler_;
  std::map<DeviceId, Slot> slots_;
  std::map<DeviceId, PoolGpu> gpus_;
  std::map<DeviceId, Cordon> cordons_;
  UnleasedProcesses unleased_;
  std::set<DeviceId> observed_;
  std::map<DeviceId, TimePoint> freed_at_;
  std::map<DeviceId, std::int64_t> idle_bytes_;
  std::map<DeviceId, HiddenWork> hidden_work_;
  // The words that each was withheld for.
  std::map<DeviceId, std::set<std::string, std::less<>>> overrides_;
  bool is_complete_ = false;
  std::optional<Allocator> allocator_;
  bool has_report_ = false;  // of the allocator
};

}  // namespace gpuyard::lease
