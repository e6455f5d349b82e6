#include "daemon/alert_caps.h"

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "daemon/control_adapter.h"

namespace gpuyard::daemon {

std::map<DeviceId, AlertCaps::Caps> AlertCaps::wanted() const {
  std::map<DeviceId, Caps> caps;
  for (const andon::Alert& alert : board_.engine().firing()) {
    const andon::Rule* const rule = find_rule(board_.engine().rules(), alert.rule);
    if (rule == nullptr || !rule->cap_w) continue;
    caps[alert.gpu][andon::owner_of_cap(rule->name)] = std::llround(*rule->cap_w * 1000);
  }
  return caps;
}

AlertCaps::Caps AlertCaps::claimed(const DeviceId& gpu) const {
  Caps caps;
  const control::Holding* const holding = control_.holding(gpu, SettingKind::power_limit);
  if (holding == nullptr) return caps;
  for (const control::Claim& claim : holding->claims) {
    if (!andon::rule_of_owner(claim.owner).empty()) caps[claim.owner] = claim.wanted.highest;
  }
  return caps;
}

void AlertCaps::look(const Snapshot& snapshot) {
  if (!board_.looking() || !control_.policy().enabled) return;
  const Owed owed = owed_now(snapshot);
  // A limit with a new value has not failed yet.
  std::erase_if(patience_, [&](const auto& one) {
    const auto now = owed.find(one.first);
    return now == owed.end() || now->second != one.second.owed;
  });
  for (const auto& [key, cap] : owed) ask(key, cap);
}

AlertCaps::Owed AlertCaps::owed_now(const Snapshot& snapshot) const {
  Owed owed;
  auto all = wanted();
  for (const DeviceState& device : snapshot.devices) {
    const DeviceId& gpu = device.info.id;
    const Caps& wanted_now = all[gpu];
    const Caps claimed_now = claimed(gpu);
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

void AlertCaps::ask(const Key& key, const Cap& cap) {
  const auto patience = patience_.find(key);
  if (patience != patience_.end() && loop_.now() < patience->second.until) return;
  if (!under_way_.insert(key).second) return;
  const control::Action action = cap ? control::Action(control::Put{power_limit(*cap)})
                                     : control::Restore{SettingKind::power_limit};
  control::Asker asker;
  asker.owner = key.second;
  asker.received = loop_.now();
  asker.ours = true;
  control_.ask({asker, {key.first}, action}, here_.guard([this, key, cap](const auto& changes) {
    under_way_.erase(key);
    const auto why = error_of(changes);
    if (!why) {
      patience_.erase(key);
      return;
    }
    Patience& again = patience_[key];
    again.owed = cap;
    again.until = loop_.now() + again.next;
    again.next = std::min(2 * again.next, kLongest);
    log::warning("{} {} for {} failed and will be retried: {}",
                 cap ? "capping" : "removing the cap of", key.first, key.second, why->text());
  }));
}

}  // namespace gpuyard::daemon
