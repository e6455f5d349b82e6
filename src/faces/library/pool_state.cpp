#include "faces/library/pool_state.h"

#include <deque>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace gpuyard {

using lease::Effects;
using lease::Ticket;

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr TimePoint kNow{};

// A time beyond the clock's range means no limit.
steady_clock::time_point deadline_after(milliseconds time) {
  const auto now = steady_clock::now();
  const auto most = std::chrono::duration_cast<milliseconds>(steady_clock::time_point::max() - now);
  return time >= most ? steady_clock::time_point::max() : now + time;
}

// It may run inside a destructor, which must not throw. A lease that the handler did not keep is
// released here.
void invoke_handler(const Pool::Handler& handler, std::optional<Pool::Lease> lease) {
  try {
    handler(std::move(lease));
  } catch (const std::exception& error) {
    log::error("a claim handler threw: {}", error.what());
  } catch (...) {
    log::error("a claim handler threw something that is not a std::exception");
  }
}

}  // namespace

// The handlers that a thread has to call, for any pool. A handler may cause further calls, and
// those may cause more: a loop makes them, so that the calls do not nest.
struct v0::Pool::Lease::SharedState::HandlerQueue {
  HandlerQueue() { current = this; }
  ~HandlerQueue() { current = nullptr; }
  HandlerQueue(const HandlerQueue&) = delete;
  HandlerQueue& operator=(const HandlerQueue&) = delete;

  void add(SharedState& state, const GrantedTickets& served) {
    for (const Ticket ticket : served) calls.emplace_back(state.shared_from_this(), ticket);
  }
  void run() {
    while (!calls.empty()) {
      const auto [state, ticket] = std::move(calls.front());
      calls.pop_front();
      state->call_handler(ticket);
    }
  }

  static thread_local HandlerQueue* current;
  std::deque<std::pair<std::shared_ptr<SharedState>, Ticket>> calls;
};

thread_local v0::Pool::Lease::SharedState::HandlerQueue*
    v0::Pool::Lease::SharedState::HandlerQueue::current = nullptr;

v0::Pool::Lease::SharedState::SharedState(std::vector<Gpu> all) : gpus(std::move(all)) {
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    lease::Gpu gpu;
    gpu.key = fmt::format("{:03}", i);
    if (!scheduler.add(std::move(gpu))) break;  // of() has checked the number
  }
}

lease::GpuRequest v0::Pool::Lease::SharedState::gpu_request(unsigned count) const {
  lease::GpuRequest wanted;
  wanted.count = count;
  wanted.eligible = scheduler.allocations().known();
  return wanted;
}

bool v0::Pool::Lease::SharedState::is_waiting(Ticket ticket) const {
  return scheduler.waiting_claims().count(ticket) != 0;
}

v0::Pool::Lease v0::Pool::Lease::SharedState::lease_of(Ticket ticket) {
  const lease::Claim& claim = *scheduler.find(ticket);
  std::vector<Gpu> held;
  held.reserve(claim.request.count);
  lease::for_each_slot(claim.gpus, [&](lease::Slot slot) { held.push_back(gpus[slot]); });
  return {shared_from_this(), std::move(held), ticket, claim.fence};
}

// Wakes waiting threads; returns the claims whose handlers to call once the mutex is free.
v0::Pool::Lease::SharedState::GrantedTickets v0::Pool::Lease::SharedState::wake(
    const Effects& effects) {
  GrantedTickets served;
  for (const Ticket ticket : effects.granted) {
    if (const auto thread = waiting_threads_.find(ticket); thread != waiting_threads_.end()) {
      thread->second->notify_one();
    } else if (pending_handlers_.count(ticket) != 0) {
      served.push_back(ticket);
    }
  }
  return served;
}

void v0::Pool::Lease::SharedState::call_handlers(const GrantedTickets& served) {
  if (served.empty()) return;
  if (HandlerQueue::current != nullptr) return HandlerQueue::current->add(*this, served);
  HandlerQueue round;
  round.add(*this, served);
  round.run();
}

void v0::Pool::Lease::SharedState::call_handler(Ticket ticket) {
  MutexLock lock(mutex);
  const auto found = pending_handlers_.find(ticket);
  if (found == pending_handlers_.end()) return;  // cancelled meanwhile
  found->second.caller_thread = std::this_thread::get_id();
  std::optional<Lease> lease = lease_of(ticket);
  Handler handler = std::move(found->second.handler);
  lock.unlock();
  invoke_handler(handler, std::move(lease));
  handler = nullptr;  // destroy its captures before cancel() returns to a waiting thread
  lock.lock();
  pending_handlers_.erase(ticket);
  handler_returned_.notify_all();
}

std::optional<v0::Pool::Lease> v0::Pool::Lease::SharedState::claim(milliseconds deadline,
                                                                   const std::stop_token& stop,
                                                                   unsigned count) {
  // A caller inside a handler: the handlers still to be called may hold the GPUs that this claim
  // waits for.
  if (HandlerQueue::current != nullptr) HandlerQueue::current->run();
  MutexLock lock(mutex);
  const lease::GpuRequest wanted = gpu_request(count);
  if (!scheduler.check_satisfiable(wanted) || stop.stop_requested()) return std::nullopt;
  Effects effects;
  const Ticket ticket = scheduler.claim(wanted, kNow, effects);
  if (is_waiting(ticket)) {
    std::condition_variable_any granted;
    waiting_threads_.emplace(ticket, &granted);
    granted.wait_until(mutex, stop, deadline_after(deadline),
                       [&]() REQUIRES(mutex) { return !is_waiting(ticket); });
    waiting_threads_.erase(ticket);
  }
  if (!is_waiting(ticket)) return lease_of(ticket);
  const GrantedTickets others = wake(scheduler.cancel(ticket, kNow));
  lock.unlock();
  call_handlers(others);
  return std::nullopt;
}

Ticket v0::Pool::Lease::SharedState::claim(Handler handler, unsigned count) {
  if (!handler) return 0;
  MutexLock lock(mutex);
  const lease::GpuRequest wanted = gpu_request(count);
  if (!scheduler.check_satisfiable(wanted)) {
    lock.unlock();
    invoke_handler(handler, std::nullopt);
    return 0;
  }
  Effects effects;
  const Ticket ticket = scheduler.claim(wanted, kNow, effects);
  pending_handlers_.emplace(ticket, PendingHandler{std::move(handler)});
  const GrantedTickets served = wake(effects);
  lock.unlock();
  call_handlers(served);
  return ticket;
}

std::optional<v0::Pool::Lease> v0::Pool::Lease::SharedState::try_claim(unsigned count) {
  const MutexLock lock(mutex);
  const auto ticket = scheduler.try_claim(gpu_request(count), kNow);
  if (!ticket) return std::nullopt;
  return lease_of(*ticket);
}

void v0::Pool::Lease::SharedState::release(Ticket ticket) {
  MutexLock lock(mutex);
  const GrantedTickets others = wake(scheduler.release(ticket, kNow));
  lock.unlock();
  call_handlers(others);
}

// The handler does not run after this call, unless the caller is the handler itself.
void v0::Pool::Lease::SharedState::cancel(Ticket ticket) {
  MutexLock lock(mutex);
  const auto found = pending_handlers_.find(ticket);
  if (found == pending_handlers_.end()) return;  // its handler has been called
  if (found->second.caller_thread == std::this_thread::get_id()) return;
  if (found->second.caller_thread) {
    return handler_returned_.wait(
        mutex, [&]() REQUIRES(mutex) { return pending_handlers_.count(ticket) == 0; });
  }
  Handler handler = std::move(found->second.handler);
  pending_handlers_.erase(found);
  // A claim that does not wait was granted, and its handler not called yet.
  const bool waits = is_waiting(ticket);
  const GrantedTickets others =
      wake(waits ? scheduler.cancel(ticket, kNow) : scheduler.release(ticket, kNow));
  lock.unlock();
  invoke_handler(handler, std::nullopt);
  call_handlers(others);
}

}  // namespace gpuyard
