#include "daemon/alert_caps.h"

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "daemon/control_adapter.h"

namespace gpuyard::daemon {

std::map<DeviceId, AlertCaps::Caps> AlertCaps::requested_caps() const {
  std::map<DeviceId, Caps> caps;
  for (const andon::Alert& alert : alerts_.engine().firing_alerts()) {
    const andon::Rule* const rule = find_rule(alerts_.engine().rules(), alert.rule);
    if (rule == nullptr || !rule->cap_w) continue;
    caps[alert.gpu][andon::owner_of_cap(rule->name)] = std::llround(*rule->cap_w * 1000);
  }
  return caps;
}

AlertCaps::Caps AlertCaps::claimed_caps(const DeviceId& gpu) const {
  Caps caps;
  const control::ManagedSetting* const setting =
      control_.managed_setting(gpu, SettingKind::power_limit);
  if (setting == nullptr) return caps;
  for (const control::SettingClaim& claim : setting->claims) {
    if (!andon::rule_of_owner(claim.owner).empty()) caps[claim.owner] = claim.value.highest;
  }
  return caps;
}

void AlertCaps::update(const Snapshot& snapshot) {
  if (!alerts_.is_open() || !control_.policy().enabled) return;
  const OwedCaps owed = owed_caps(snapshot);
  // A limit with a new value has not failed yet.
  std::erase_if(back_offs_, [&](const auto& one) {
    const auto now = owed.find(one.first);
    return now == owed.end() || now->second != one.second.owed;
  });
  for (const auto& [key, cap] : owed) submit(key, cap);
}

AlertCaps::OwedCaps AlertCaps::owed_caps(const Snapshot& snapshot) const {
  OwedCaps owed;
  auto all = requested_caps();
  for (const DeviceState& device : snapshot.devices) {
    const DeviceId& gpu = device.info.id;
    const Caps& wanted_now = all[gpu];
    const Caps claimed_now = claimed_caps(gpu);
    for (const auto& [owner, milliwatts] : wanted_now) {
      const auto claim = claimed_now.find(owner);
      if (claim != claimed_now.end() && claim->second == milliwatts) continue;
      owed[{gpu, owner}] = milliwatts;
    }
    for (const auto& [owner, milliwatts] : claimed_now) {
      if (wanted_now.count(owner) == 0) owed[{gpu, owner}] = std::nullopt;
    }
  }
  return owed;
}

void AlertCaps::submit(const Key& key, const Cap& cap) {
  const auto found = back_offs_.find(key);
  if (found != back_offs_.end() && loop_.now() < found->second.retry_at) return;
  if (!pending_.insert(key).second) return;
  const control::ChangeAction action =
      cap ? control::ChangeAction(control::SetValue{power_limit(*cap)})
          : control::Restore{SettingKind::power_limit};
  control::ChangeRequester requester;
  requester.owner = key.second;
  requester.received = loop_.now();
  requester.internal = true;
  control_.submit(
      {requester, {key.first}, action}, lifetime_.guard([this, key, cap](const auto& changes) {
        pending_.erase(key);
        const auto why = first_error_of(changes);
        if (!why) {
          back_offs_.erase(key);
          return;
        }
        BackOff& back_off = back_offs_[key];
        back_off.owed = cap;
        back_off.retry_at = loop_.now() + back_off.delay;
        back_off.delay = std::min(2 * back_off.delay, kMaxRetryDelay);
        log::warning("{} {} for {} failed and will be retried: {}",
                     cap ? "capping" : "removing the cap of", key.first, key.second, why->text());
      }));
}

}  // namespace gpuyard::daemon
