// The public Pool, Lease and PendingLease: handles on the state that they share.
#include <set>
#include <utility>

#include <fmt/format.h>

#include "faces/library/pool_state.h"
#include "gpuyard/monitor.h"

namespace gpuyard {

using lease::Ticket;

v0::Pool::Lease::Lease(std::shared_ptr<SharedState> ground, std::vector<Gpu> gpus, Ticket ticket,
                       std::uint64_t fence)
    : state_(std::move(ground)), gpus_(std::move(gpus)), ticket_(ticket), fence_(fence) {}
v0::Pool::Lease::Lease(Lease&&) noexcept = default;
v0::Pool::Lease& v0::Pool::Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  release();
  state_ = std::move(other.state_);
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
  if (const auto state = std::exchange(state_, nullptr)) state->release(ticket_);
}

v0::Pool::PendingLease::PendingLease(std::shared_ptr<Lease::SharedState> state, Ticket ticket)
    : state_(std::move(state)), ticket_(ticket) {}
v0::Pool::PendingLease::PendingLease(PendingLease&&) noexcept = default;
v0::Pool::PendingLease& v0::Pool::PendingLease::operator=(PendingLease&& other) noexcept {
  if (this == &other) return *this;
  cancel();
  state_ = std::move(other.state_);
  ticket_ = other.ticket_;
  return *this;
}
v0::Pool::PendingLease::~PendingLease() {
  cancel();
}

void v0::Pool::PendingLease::cancel() {
  if (const auto state = std::exchange(state_, nullptr)) state->cancel(ticket_);
}

v0::Pool::Pool() : Pool(std::make_shared<Lease::SharedState>(std::vector<Gpu>{})) {}
v0::Pool::Pool(std::shared_ptr<Lease::SharedState> state) : state_(std::move(state)) {}

Result<v0::Pool> v0::Pool::of(std::vector<Gpu> gpus) {
  if (gpus.size() > kMostGpus) {
    return Error{Errc::invalid, fmt::format("{} GPUs: a pool holds at most {}", gpus.size(),
                                            std::size_t{kMostGpus})};
  }
  std::set<std::uint32_t> indexes;
  for (const Gpu& gpu : gpus) {
    if (indexes.insert(gpu.index).second) continue;
    return Error{Errc::invalid, fmt::format("GPU index {} is listed twice", gpu.index)};
  }
  return Pool(std::make_shared<Lease::SharedState>(std::move(gpus)));
}

Result<v0::Pool> v0::Pool::of(const Monitor& monitor) {
  std::vector<Gpu> gpus;
  for (Device& device : monitor.inventory()) {
    if (device.condition == Device::Condition::unavailable) continue;
    gpus.push_back({device.index, "NVIDIA", std::move(device.name)});
  }
  return of(std::move(gpus));
}

std::optional<v0::Pool::Lease> v0::Pool::claim(std::chrono::milliseconds deadline,
                                               const std::stop_token& stop, unsigned gpus) const {
  return state_->claim(deadline, stop, gpus);
}

v0::Pool::PendingLease v0::Pool::claim(Handler handler, unsigned gpus) const {
  const Ticket ticket = state_->claim(std::move(handler), gpus);
  return {state_, ticket};
}

std::optional<v0::Pool::Lease> v0::Pool::try_claim(unsigned gpus) const {
  return state_->try_claim(gpus);
}

std::size_t v0::Pool::pending_claimers() const {
  const MutexLock lock(state_->mutex);
  return state_->scheduler.waiting_claims().size();
}

std::size_t v0::Pool::capacity() const {
  return state_->gpus.size();
}

std::vector<v0::Pool::LeaseSnapshot> v0::Pool::snapshot_leases() const {
  std::vector<LeaseSnapshot> all;
  all.reserve(capacity());
  const MutexLock lock(state_->mutex);
  for (lease::Slot slot = 0; slot < capacity(); ++slot) {
    const Gpu& gpu = state_->gpus[slot];
    all.push_back({gpu.vendor, gpu.name, gpu.index,
                   state_->scheduler.allocations().holder(slot).has_value()});
  }
  return all;
}

std::optional<v0::Pool::Lease> v0::HelperArbiter::decide(std::optional<Pool::Lease> held,
                                                         unsigned gpus) const {
  if (pool_.pending_claimers() > 0) return std::nullopt;  // and drops the lease that was held
  const bool holds = held && !held->gpus().empty();
  return holds ? std::move(held) : pool_.try_claim(gpus);
}

}  // namespace gpuyard
