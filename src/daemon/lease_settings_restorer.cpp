#include "daemon/lease_settings_restorer.h"

#include <string_view>

#include <fmt/format.h>
#include <boost/describe.hpp>
#include <boost/mp11.hpp>

#include "base/log.h"
#include "daemon/control_adapter.h"

namespace gpuyard::daemon {
namespace {

template <typename OnSetting>
void for_each_managed_setting(const control::SettingController& control, const DeviceId& gpu,
                              OnSetting on_setting) {
  boost::mp11::mp_for_each<boost::describe::describe_enumerators<SettingKind>>([&](auto kind) {
    if (const control::ManagedSetting* setting = control.managed_setting(gpu, kind.value))
      on_setting(*setting);
  });
}

}  // namespace

// Returns the owners of claims whose lease is not held any more.
std::set<std::string> LeaseSettingsRestorer::orphaned_owners(const DeviceId& gpu) const {
  std::set<std::string> found;
  for_each_managed_setting(control_, gpu, [&](const control::ManagedSetting& setting) {
    for (const control::SettingClaim& claim : setting.claims) {
      const std::string_view id = lease::lease_of(claim.owner);
      if (id.empty()) continue;
      const lease::Lease* lease = leases_.find(id);
      if (lease == nullptr || lease->state != lease::LeaseState::held) found.insert(claim.owner);
    }
  });
  return found;
}

// If control is switched off, it restores nothing, and a drain does not wait for it.
std::optional<std::string> LeaseSettingsRestorer::unrestored_text(const lease::Lease& lease) const {
  if (!control_.policy().enabled) return std::nullopt;
  if (!control_.is_loaded()) return "the settings of its GPUs have not been read yet";
  const std::string owner = lease::owner_of(lease.id);
  std::optional<std::string> left;
  for (const DeviceId& gpu : lease.gpus) {
    if (leases_.gpus().is_lost(gpu)) continue;
    for_each_managed_setting(control_, gpu, [&](const control::ManagedSetting& setting) {
      if (control::find_claim(setting, owner) == nullptr) return;
      left = fmt::format("the {} of {} has not been restored yet", display_name(setting.kind), gpu);
    });
  }
  return left;
}

void LeaseSettingsRestorer::restore_ended() {
  control_.refuse_unauthorized();
  if (loop_.now() < not_before_ || leases_.grant_error()) return;
  for (const auto& [gpu, slot] : leases_.gpus().slots()) {
    for (const std::string& owner : orphaned_owners(gpu)) restore(gpu, owner);
  }
}

void LeaseSettingsRestorer::restore(const DeviceId& gpu, const std::string& owner) {
  if (!pending_.emplace(gpu, owner).second) return;
  control::ChangeRequester requester;
  requester.owner = owner;
  requester.received = loop_.now();
  if (const lease::Lease* lease = leases_.find(lease::lease_of(owner))) {
    requester.quota_owner = fmt::format("uid {}", leases_.quota_owner(lease->uid));
  }
  control_.submit({requester, {gpu}, control::Restore{}},
                  lifetime_.guard([this, gpu, owner](const auto& changes) {
                    pending_.erase({gpu, owner});
                    const auto why = first_error_of(changes);
                    if (!why) return;
                    not_before_ = loop_.now() + kRetryDelay;
                    log::warning("settings of {} by {} have not been restored yet: {}", gpu, owner,
                                 why->text());
                  }));
}

}  // namespace gpuyard::daemon
