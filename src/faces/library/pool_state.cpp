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

// A time beyond the clock's range means for ever.
steady_clock::time_point after(milliseconds time) {
  const auto now = steady_clock::now();
  const auto most = std::chrono::duration_cast<milliseconds>(steady_clock::time_point::max() - now);
  return time >= most ? steady_clock::time_point::max() : now + time;
}

// It may run inside a destructor, which must not throw. A lease that the handler did not keep is
// released here.
void call(const Pool::Handler& handler, std::optional<Pool::Lease> lease) {
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
struct v0::Pool::Lease::Ground::Round {
  Round() { current = this; }
  ~Round() { current = nullptr; }
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;

  void add(Ground& ground, const Served& served) {
    for (const Ticket ticket : served) all.emplace_back(ground.shared_from_this(), ticket);
  }
  void go() {
    while (!all.empty()) {
      const auto [ground, ticket] = std::move(all.front());
      all.pop_front();
      ground->tell_one(ticket);
    }
  }

  static thread_local Round* current;
  std::deque<std::pair<std::shared_ptr<Ground>, Ticket>> all;
};

thread_local v0::Pool::Lease::Ground::Round* v0::Pool::Lease::Ground::Round::current = nullptr;

v0::Pool::Lease::Ground::Ground(std::vector<Gpu> all) : gpus(std::move(all)) {
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    lease::Gpu gpu;
    gpu.key = fmt::format("{:03}", i);
    if (!core.add(std::move(gpu))) break;  // of() has checked the number
  }
}

lease::Terms v0::Pool::Lease::Ground::terms(unsigned count) const {
  lease::Terms wanted;
  wanted.count = count;
  wanted.eligible = core.known();
  return wanted;
}

v0::Pool::Lease v0::Pool::Lease::Ground::lease_of(Ticket ticket) {
  const lease::Claim& claim = *core.find(ticket);
  std::vector<Gpu> held;
  held.reserve(claim.terms.count);
  lease::each_slot(claim.gpus, [&](lease::Slot slot) { held.push_back(gpus[slot]); });
  return {shared_from_this(), std::move(held), ticket, claim.fence};
}

// Wakes waiting threads; returns the claims whose handlers to call once the mutex is free.
v0::Pool::Lease::Ground::Served v0::Pool::Lease::Ground::wake(const Effects& effects) {
  Served served;
  for (const Ticket ticket : effects.granted) {
    if (const auto thread = threads_.find(ticket); thread != threads_.end()) {
      thread->second->notify_one();
    } else if (listeners_.count(ticket) != 0) {
      served.push_back(ticket);
    }
  }
  return served;
}

void v0::Pool::Lease::Ground::tell(const Served& served) {
  if (served.empty()) return;
  if (Round::current != nullptr) return Round::current->add(*this, served);
  Round round;
  round.add(*this, served);
  round.go();
}

void v0::Pool::Lease::Ground::tell_one(Ticket ticket) {
  std::unique_lock lock(mutex);
  const auto found = listeners_.find(ticket);
  if (found == listeners_.end()) return;  // cancelled meanwhile
  found->second.teller = std::this_thread::get_id();
  std::optional<Lease> lease = lease_of(ticket);
  Handler handler = std::move(found->second.handler);
  lock.unlock();
  call(handler, std::move(lease));
  handler = nullptr;  // destroy its captures before cancel() returns to a waiting thread
  lock.lock();
  listeners_.erase(ticket);
  told_.notify_all();
}

std::optional<v0::Pool::Lease> v0::Pool::Lease::Ground::claim(milliseconds deadline,
                                                              const std::stop_token& stop,
                                                              unsigned count) {
  // In a handler: those still to be called may hold the GPUs that this claim waits for.
  if (Round::current != nullptr) Round::current->go();
  std::unique_lock lock(mutex);
  const lease::Terms wanted = terms(count);
  if (!core.possible(wanted) || stop.stop_requested()) return std::nullopt;
  Effects effects;
  const Ticket ticket = core.claim(wanted, kNow, effects);
  const auto served = [&] { return core.waiting().count(ticket) == 0; };
  if (!served()) {
    std::condition_variable_any granted;
    threads_.emplace(ticket, &granted);
    granted.wait_until(lock, stop, after(deadline), served);
    threads_.erase(ticket);
  }
  if (served()) return lease_of(ticket);
  const Served others = wake(core.cancel(ticket, kNow));
  lock.unlock();
  tell(others);
  return std::nullopt;
}

Ticket v0::Pool::Lease::Ground::claim(Handler handler, unsigned count) {
  if (!handler) return 0;
  std::unique_lock lock(mutex);
  const lease::Terms wanted = terms(count);
  if (!core.possible(wanted)) {
    lock.unlock();
    call(handler, std::nullopt);
    return 0;
  }
  Effects effects;
  const Ticket ticket = core.claim(wanted, kNow, effects);
  listeners_.emplace(ticket, Listener{std::move(handler)});
  const Served served = wake(effects);
  lock.unlock();
  tell(served);
  return ticket;
}

std::optional<v0::Pool::Lease> v0::Pool::Lease::Ground::try_claim(unsigned count) {
  const std::lock_guard lock(mutex);
  const auto ticket = core.try_claim(terms(count), kNow);
  if (!ticket) return std::nullopt;
  return lease_of(*ticket);
}

void v0::Pool::Lease::Ground::release(Ticket ticket) {
  std::unique_lock lock(mutex);
  const Served others = wake(core.release(ticket, kNow));
  lock.unlock();
  tell(others);
}

// After it the handler does not run any more, unless it is the caller itself.
void v0::Pool::Lease::Ground::cancel(Ticket ticket) {
  std::unique_lock lock(mutex);
  const auto found = listeners_.find(ticket);
  if (found == listeners_.end()) return;  // its handler has been called
  if (found->second.teller == std::this_thread::get_id()) return;
  if (found->second.teller) {
    return told_.wait(lock, [&] { return listeners_.count(ticket) == 0; });
  }
  Handler handler = std::move(found->second.handler);
  listeners_.erase(found);
  const bool waits = core.waiting().count(ticket) != 0;  // else it was granted and not told
  const Served others = wake(waits ? core.cancel(ticket, kNow) : core.release(ticket, kNow));
  lock.unlock();
  call(handler, std::nullopt);
  tell(others);
}

}  // namespace gpuyard
