// The state that the leases, claims and copies of a Pool share: lease::Scheduler behind a mutex,
// and the handlers to call. No claim says how long it holds and nothing drains, so the time of day
// does not matter.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "core/lease/scheduler.h"
#include "gpuyard/pool.h"

namespace gpuyard {

// Thread: any. Not exported, unlike the class that contains it.
struct [[gnu::visibility("hidden")]] v0::Pool::Lease::SharedState
    : std::enable_shared_from_this<SharedState> {
  explicit SharedState(std::vector<Gpu> all);

  std::optional<Lease> claim(std::chrono::milliseconds deadline, const std::stop_token& stop,
                             unsigned count);
  lease::Ticket claim(Handler handler, unsigned count);
  std::optional<Lease> try_claim(unsigned count);
  void release(lease::Ticket);
  void cancel(lease::Ticket);

  const std::vector<Gpu> gpus;
  Mutex mutex;
  lease::Scheduler scheduler GUARDED_BY(mutex){{.strict = true}};

 private:
  // A handler to be called.
  struct PendingHandler {
    Handler handler;
    std::optional<std::thread::id> caller_thread = {};  // the thread that calls it
  };
  // Claims that were granted and whose handlers are to be called.
  using GrantedTickets = std::vector<lease::Ticket>;
  struct HandlerQueue;  // see pool_state.cpp

  lease::GpuRequest gpu_request(unsigned count) const REQUIRES(mutex);
  bool is_waiting(lease::Ticket) const REQUIRES(mutex);
  Lease lease_of(lease::Ticket) REQUIRES(mutex);
  GrantedTickets wake(const lease::Effects&) REQUIRES(mutex);

  void call_handlers(const GrantedTickets&) EXCLUDES(mutex);
  void call_handler(lease::Ticket) EXCLUDES(mutex);

  // Of threads that wait for a grant.
  std::map<lease::Ticket, std::condition_variable_any*> waiting_threads_ GUARDED_BY(mutex);
  // Until their handlers return.
  std::map<lease::Ticket, PendingHandler> pending_handlers_ GUARDED_BY(mutex);
  ConditionVariable handler_returned_;  // a handler has returned
};

}  // namespace gpuyard
