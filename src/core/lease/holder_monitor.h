// The processes that leases are bound to: their identity, and when they are gone. Lives on the io
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/loop.h"
#include "core/lease/gpu_pool.h"
#include "core/lease/process_observer.h"

namespace gpuyard::lease {

class HolderMonitor {
 public:
  using OnGone = std::function<void(const std::string& lease, const ProcessKey&)>;
  using OnIdentified = std::function<void(Result<ProcessIdentity>)>;

  // `loop` and `observer` outlive it. Each known process takes two descriptors. Above `max_known`
  // processes, those without a lease are evicted.
  HolderMonitor(Loop& loop, ProcessObserver& observer, std::size_t max_known, OnGone on_gone)
      : loop_(loop), observer_(observer), max_known_(max_known), on_gone_(std::move(on_gone)) {}

  // Finds the process that has this number now. For one that has had a lease, the callback runs
  // inside the call. A process that only makes requests is not tracked.
  void identify(std::uint32_t pid, const OnIdentified&);
  // Calls on_gone() once when the process is gone, never inside this call. That also holds for a
  // process that is gone already: its descriptor shows it.
  void bind(const std::string& lease, const ProcessIdentity&);
  void release(const std::string& lease, const std::vector<ProcessKey>& processes);
  void clear();

 private:
  struct KnownProcess {
    ProcessIdentity identity;
    std::set<std::string> leases = {};
    Subscription exit_subscription = {};
  };

  KnownProcess& track(const ProcessIdentity&);
  void on_gone(std::uint32_t pid);
  void evict_unbound();

  Loop& loop_;
  ProcessObserver& observer_;
  const std::size_t max_known_;
  OnGone on_gone_;
  // By pid, which is not reused before the process is gone.
  std::map<std::uint32_t, KnownProcess> known_processes_;
  Lifetime lifetime_;
};

// The leftover of a draining lease, which ends only when none of its processes lives, none is on
// its GPUs, and their memory is free again.

// A driver keeps some memory of a process for a moment; more than this still belongs to a process.
inline constexpr std::int64_t kSlackBytes = std::int64_t{512} << 20;

// Returns the processes of the lease that have to go: those on its GPUs, and those that may still
// begin to use them. The holder that released its lease itself may live on.
std::vector<ProcessKey> remaining_processes(const Lease&, const Observation&);
struct Leftover {
  std::string text;          // for people
  bool is_observed = false;  // if not, it is unknown whether anything is left
};

// Returns nothing if all is gone.
std::optional<Leftover> find_leftover(const Lease&, const Observation&, const GpuPool&);

}  // namespace gpuyard::lease
