// The processes that leases are bound to: their identity, and when they are gone. Lives on the io
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/lifetime.h"
#include "base/loop.h"
#include "base/result.h"
#include "core/lease/process_observer.h"

namespace gpuyard::lease {

class HolderMonitor {
 public:
  using OnGone = std::function<void(const std::string& lease, const ProcessKey&)>;
  using OnIdentified = std::function<void(Result<ProcessIdentity>)>;

  // The loop and the observer outlive the monitor. Each known process takes two descriptors. Above
  // `max_known` processes, those without a lease are evicted.
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

}  // namespace gpuyard::lease
