// The public Pool: lease::Core behind a mutex. No claim says how long it holds and nothing drains,
// so that the time of day is of no account.
#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "gpuyard/monitor.h"
#include "gpuyard/pool.h"
#include "lease/core.h"

namespace gpuyard {

using lease::Core;
using lease::Effects;
using lease::Ticket;

// What leases, claims and pools share. Not exported, unlike the class that it stands in.
struct [[gnu::visibility("hidden")]] v0::Pool::Lease::Ground
    : std::enable_shared_from_this<Ground> {
  // Somebody who waits: a thread, or a handler.
  struct Waiter {
    std::condition_variable_any granted;
    Handler handler;
  };
  using Told = std::vector<std::pair<Handler, std::optional<Lease>>>;

  explicit Ground(std::vector<Gpu> all) : gpus(std::move(all)) {
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      lease::Gpu gpu;
      gpu.key = fmt::format("{:03}", i);
      if (!core.add(std::move(gpu))) break;  // of() has counted them
    }
  }

  std::optional<Lease> claim(std::chrono::milliseconds deadline, const std::stop_token& stop,
                             unsigned count);
  Ticket claim(Handler handler, unsigned count);
  std::optional<Lease> try_claim(unsigned count);
  void release(Ticket);
  void cancel(Ticket);

  // The mutex is held in these.
  lease::Terms terms(unsigned count) const;
  Lease lease_of(Ticket);
  Told wake(const Effects&);

  static void tell(Told told) {
    for (auto& [handler, lease] : told) handler(std::move(lease));
  }

  const std::vector<Gpu> gpus;
  std::mutex mutex;
  Core core{{.strict = true}};
  std::map<Ticket, Waiter*> threads;
  std::map<Ticket, Handler> handlers;
};

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr TimePoint kNow{};

// A time so far away that the clock cannot tell it is for ever.
steady_clock::time_point after(milliseconds time) {
  const auto now = steady_clock::now();
  const auto most = std::chrono::duration_cast<milliseconds>(steady_clock::time_point::max() - now);
  return time >= most ? steady_clock::time_point::max() : now + time;
}

}  // namespace

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

// Threads look themselves; handlers are told when the mutex is not held any more.
v0::Pool::Lease::Ground::Told v0::Pool::Lease::Ground::wake(const Effects& effects) {
  Told told;
  for (const Ticket ticket : effects.granted) {
    if (const auto thread = threads.find(ticket); thread != threads.end()) {
      thread->second->granted.notify_one();
    } else if (auto handler = handlers.extract(ticket)) {
      told.emplace_back(std::move(handler.mapped()), lease_of(ticket));
    }
  }
  return told;
}

std::optional<v0::Pool::Lease> v0::Pool::Lease::Ground::claim(milliseconds deadline,
                                                              const std::stop_token& stop,
                                                              unsigned count) {
  std::unique_lock lock(mutex);
  const lease::Terms wanted = terms(count);
  if (!core.possible(wanted) || stop.stop_requested()) return std::nullopt;
  Effects effects;
  const Ticket ticket = core.claim(wanted, kNow, effects);
  const auto served = [&] { return core.waiting().count(ticket) == 0; };
  if (!served()) {
    Waiter self;
    threads.emplace(ticket, &self);
    self.granted.wait_until(lock, stop, after(deadline), served);
    threads.erase(ticket);
  }
  if (served()) return lease_of(ticket);
  Told told = wake(core.cancel(ticket, kNow));
  lock.unlock();
  tell(std::move(told));
  return std::nullopt;
}

Ticket v0::Pool::Lease::Ground::claim(Handler handler, unsigned count) {
  std::unique_lock lock(mutex);
  const lease::Terms wanted = terms(count);
  if (!core.possible(wanted)) {
    lock.unlock();
    handler(std::nullopt);
    return 0;
  }
  Effects effects;
  const Ticket ticket = core.claim(wanted, kNow, effects);
  handlers.emplace(ticket, std::move(handler));
  Told told = wake(effects);
  lock.unlock();
  tell(std::move(told));
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
  Told told = wake(core.release(ticket, kNow));
  lock.unlock();
  tell(std::move(told));
}

void v0::Pool::Lease::Ground::cancel(Ticket ticket) {
  std::unique_lock lock(mutex);
  auto handler = handlers.extract(ticket);
  if (!handler) return;
  Told told = wake(core.cancel(ticket, kNow));
  lock.unlock();
  handler.mapped()(std::nullopt);
  tell(std::move(told));
}

v0::Pool::Lease::Lease(std::shared_ptr<Ground> ground, std::vector<Gpu> gpus, Ticket ticket,
                       std::uint64_t fence)
    : ground_(std::move(ground)), gpus_(std::move(gpus)), ticket_(ticket), fence_(fence) {}
v0::Pool::Lease::Lease(Lease&&) noexcept = default;
v0::Pool::Lease& v0::Pool::Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  release();
  ground_ = std::move(other.ground_);
  gpus_ = std::move(other.gpus_);
  ticket_ = other.ticket_;
  fence_ = other.fence_;
  return *this;
}
v0::Pool::Lease::~Lease() {
  release();
}

void v0::Pool::Lease::release() {
  gpus_.clear();
  if (const auto ground = std::exchange(ground_, nullptr)) ground->release(ticket_);
}

v0::Pool::PendingLease::PendingLease(std::shared_ptr<Lease::Ground> ground, Ticket ticket)
    : ground_(std::move(ground)), ticket_(ticket) {}
v0::Pool::PendingLease::PendingLease(PendingLease&&) noexcept = default;
v0::Pool::PendingLease& v0::Pool::PendingLease::operator=(PendingLease&& other) noexcept {
  if (this == &other) return *this;
  cancel();
  ground_ = std::move(other.ground_);
  ticket_ = other.ticket_;
  return *this;
}
v0::Pool::PendingLease::~PendingLease() {
  cancel();
}

void v0::Pool::PendingLease::cancel() {
  if (const auto ground = std::exchange(ground_, nullptr)) ground->cancel(ticket_);
}

v0::Pool::Pool() : Pool(std::make_shared<Lease::Ground>(std::vector<Gpu>{})) {}
v0::Pool::Pool(std::shared_ptr<Lease::Ground> ground) : ground_(std::move(ground)) {}

Result<v0::Pool> v0::Pool::of(std::vector<Gpu> gpus) {
  if (gpus.size() > kMostGpus) {
    return Error{Errc::invalid, fmt::format("{} GPUs: a pool has room for {}", gpus.size(),
                                            std::size_t{kMostGpus})};
  }
  std::set<std::uint32_t> indexes;
  for (const Gpu& gpu : gpus) {
    if (indexes.insert(gpu.index).second) continue;
    return Error{Errc::invalid, fmt::format("GPU index {} is there twice", gpu.index)};
  }
  return Pool(std::make_shared<Lease::Ground>(std::move(gpus)));
}

Result<v0::Pool> v0::Pool::of(const Monitor& monitor) {
  std::vector<Gpu> gpus;
  for (Device& device : monitor.inventory()) {
    if (device.condition == Device::Condition::unavailable) continue;
    gpus.push_back({device.index, "NVIDIA", std::move(device.name)});
  }
  return of(std::move(gpus));
}

std::optional<v0::Pool::Lease> v0::Pool::claim(milliseconds deadline, const std::stop_token& stop,
                                               unsigned gpus) const {
  return ground_->claim(deadline, stop, gpus);
}

v0::Pool::PendingLease v0::Pool::claim(Handler handler, unsigned gpus) const {
  const Ticket ticket = ground_->claim(std::move(handler), gpus);
  return {ground_, ticket};
}

std::optional<v0::Pool::Lease> v0::Pool::try_claim(unsigned gpus) const {
  return ground_->try_claim(gpus);
}

std::size_t v0::Pool::pending_claimers() const {
  const std::lock_guard lock(ground_->mutex);
  return ground_->core.waiting().size();
}

std::size_t v0::Pool::capacity() const {
  return ground_->gpus.size();
}

std::vector<v0::Pool::LeaseSnapshot> v0::Pool::snapshot_leases() const {
  std::vector<LeaseSnapshot> all;
  all.reserve(capacity());
  const std::lock_guard lock(ground_->mutex);
  for (lease::Slot slot = 0; slot < capacity(); ++slot) {
    const Gpu& gpu = ground_->gpus[slot];
    all.push_back({gpu.vendor, gpu.name, gpu.index, ground_->core.holder(slot).has_value()});
  }
  return all;
}

std::optional<v0::Pool::Lease> v0::HelperArbiter::decide(std::optional<Pool::Lease> held,
                                                         unsigned gpus) const {
  if (pool_.pending_claimers() > 0) return std::nullopt;  // and what was held is dropped
  const bool holds = held && !held->gpus().empty();
  return holds ? std::move(held) : pool_.try_claim(gpus);
}

}  // namespace gpuyard
