#include "api/lease_board.h"

namespace gpuyard::api {

std::optional<lease::Outlook> LeaseBoard::place(const std::string& id) {
  refresh(kPeriod);
  auto found = places_.find(id);
  if (found == places_.end()) {
    refresh(kLeast);
    found = places_.find(id);
  }
  return found == places_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::string> LeaseBoard::holder(const DeviceId& gpu) {
  refresh(kPeriod);
  const auto found = holders_.find(gpu);
  return found == holders_.end() ? std::nullopt : std::optional(found->second);
}

void LeaseBoard::refresh(Duration oldest) {
  if (looked_ && loop_.now() - *looked_ < oldest) return;
  looked_ = loop_.now();
  places_.clear();
  for (lease::WaitingOutlook& one : leases_.outlooks(SIZE_MAX)) {
    places_.emplace(std::move(one.lease), one.outlook);
  }
  holders_.clear();
  for (const lease::Lease* lease : leases_.with_gpus()) {
    for (const DeviceId& gpu : lease->gpus) holders_.insert_or_assign(gpu, lease->id);
  }
}

Subscription LeaseBoard::follow(std::function<void()> told) {
  const std::uint64_t number = ++next_;
  followers_.emplace(number, std::move(told));
  if (!timer_) timer_ = loop_.call_after(kPeriod, [this] { tick(); });
  return Subscription([self = shared_from_this(), number] { self->followers_.erase(number); });
}

// Nobody's timer turns while nobody follows.
void LeaseBoard::tick() {
  timer_.reset();
  if (followers_.empty()) return;
  timer_ = loop_.call_after(kPeriod, [this] { tick(); });
  for (const auto& [number, told] : followers_) told();
}

}  // namespace gpuyard::api
