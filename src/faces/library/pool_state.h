// The state that the leases, claims and copies of a Pool share: lease::Core behind a mutex, and the
// handlers to call. No claim says how long it holds and nothing drains, so the time of day does not
// matter.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "core/lease/scheduler.h"
#include "gpuyard/pool.h"

namespace gpuyard {

// Any thread. Not exported, unlike the class that contains it.
struct [[gnu::visibility("hidden")]] v0::Pool::Lease::Ground
    : std::enable_shared_from_this<Ground> {
  explicit Ground(std::vector<Gpu> all);

  std::optional<Lease> claim(std::chrono::milliseconds deadline, const std::stop_token& stop,
                             unsigned count);
  lease::Ticket claim(Handler handler, unsigned count);
  std::optional<Lease> try_claim(unsigned count);
  void release(lease::Ticket);
  void cancel(lease::Ticket);

  const std::vector<Gpu> gpus;
  std::mutex mutex;  // guards what follows
  lease::Core core{{.strict = true}};

 private:
  // A handler to be called.
  struct Listener {
    Handler handler;
    std::optional<std::thread::id> teller = {};  // the thread that calls it
  };
  // Claims that were granted and whose handlers are to be called.
  using Served = std::vector<lease::Ticket>;
  struct Round;  // see pool_state.cpp

  // The caller holds the mutex.
  lease::Terms terms(unsigned count) const;
  Lease lease_of(lease::Ticket);
  Served wake(const lease::Effects&);

  void tell(const Served&);
  void tell_one(lease::Ticket);

  std::map<lease::Ticket, std::condition_variable_any*> threads_;  // that wait for a grant
  std::map<lease::Ticket, Listener> listeners_;                    // until their handlers return
  std::condition_variable told_;                                   // a handler has returned
};

}  // namespace gpuyard
