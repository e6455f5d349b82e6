#include "daemon/lease_settings.h"

#include <fmt/format.h>
#include <boost/describe.hpp>
#include <boost/mp11.hpp>

#include "base/log.h"
#include "daemon/change_error.h"

namespace gpuyard::daemon {

namespace {

template <typename Told>
void each_holding(const control::Control& control, const DeviceId& gpu, Told told) {
  boost::mp11::mp_for_each<boost::describe::describe_enumerators<SettingKind>>([&](auto kind) {
    if (const control::Holding* holding = control.holding(gpu, kind.value)) told(*holding);
  });
}

}  // namespace

// Owners of claims whose lease is not held any more.
std::set<std::string> LeaseSettings::orphans(const DeviceId& gpu) const {
  std::set<std::string> found;
  each_holding(control_, gpu, [&](const control::Holding& holding) {
    for (const control::Claim& claim : holding.claims) {
      const std::string_view id = lease::lease_of(claim.owner);
      if (id.empty()) continue;
      const lease::Lease* lease = leases_.find(id);
      if (lease == nullptr || lease->state != lease::State::held) found.insert(claim.owner);
    }
  });
  return found;
}

// Control that is switched off puts nothing back, and a drain does not wait for it.
std::optional<std::string> LeaseSettings::left(const lease::Lease& lease) const {
  if (!control_.policy().enabled) return std::nullopt;
  if (!control_.loaded()) return "what was set of its GPUs is not read yet";
  const std::string owner = lease::owner_of(lease.id);
  std::optional<std::string> left;
  for (const DeviceId& gpu : lease.gpus) {
    if (leases_.gpus().lost(gpu)) continue;
    each_holding(control_, gpu, [&](const control::Holding& holding) {
      if (control::find_claim(holding, owner) == nullptr) return;
      left = fmt::format("the {} of {} is not put back yet", words_of(holding.kind), gpu);
    });
  }
  return left;
}

void LeaseSettings::look() {
  control_.drop_lapsed();
  if (loop_.now() < not_before_ || leases_.closed()) return;
  for (const auto& [gpu, slot] : leases_.gpus().slots()) {
    for (const std::string& owner : orphans(gpu)) put_back(gpu, owner);
  }
}

void LeaseSettings::put_back(const DeviceId& gpu, const std::string& owner) {
  if (!under_way_.emplace(gpu, owner).second) return;
  control::Asker asker;
  asker.owner = owner;
  asker.received = loop_.now();
  control_.ask({asker, {gpu}, control::Restore{}}, [weak = std::weak_ptr(self_), gpu,
                                                    owner](const auto& changes) {
    const auto self = weak.lock();
    if (!self) return;
    (*self)->under_way_.erase({gpu, owner});
    const auto why = error_of(changes);
    if (!why) return;
    (*self)->not_before_ = (*self)->loop_.now() + kAgain;
    log::warning("what was set of {} with {} was not put back yet: {}", gpu, owner, why->message);
  });
}

}  // namespace gpuyard::daemon
