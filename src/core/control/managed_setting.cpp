#include "core/control/managed_setting.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpuyard::control {

const SettingClaim* effective_claim(const ManagedSetting& holding) {
  // min_element returns the first of equals: the oldest.
  const auto lowest = std::ranges::min_element(
      holding.claims, {}, [](const SettingClaim& claim) { return claim.value.lowest; });
  return lowest == holding.claims.end() ? nullptr : &*lowest;
}

std::optional<Setting> effective_setting(const ManagedSetting& holding) {
  const SettingClaim* claim = effective_claim(holding);
  return claim == nullptr ? std::nullopt : std::optional(Setting{holding.kind, claim->value});
}

const SettingClaim* find_claim(const ManagedSetting& holding, std::string_view owner) {
  const auto found = std::ranges::find(holding.claims, owner, &SettingClaim::owner);
  return found == holding.claims.end() ? nullptr : &*found;
}

void set_claim(ManagedSetting& holding, SettingClaim claim) {
  remove_claim(holding, claim.owner);
  holding.claims.push_back(std::move(claim));
}

bool remove_claim(ManagedSetting& holding, std::string_view owner) {
  return std::erase_if(holding.claims,
                       [&](const SettingClaim& one) { return one.owner == owner; }) > 0;
}

bool remove_expired(ManagedSetting& holding, TimePoint now) {
  return std::erase_if(holding.claims,
                       [&](const SettingClaim& one) { return one.until && *one.until <= now; }) > 0;
}

std::optional<TimePoint> next_expiry(const ManagedSetting& holding) {
  std::optional<TimePoint> next;
  for (const SettingClaim& claim : holding.claims) {
    if (claim.until && (!next || *claim.until < *next)) next = claim.until;
  }
  return next;
}

void rebase_to_boot(ManagedSetting& holding, const std::string& boot_id, TimePoint now,
                    WallTime wall) {
  if (holding.boot_id == boot_id) return;
  holding.boot_id = boot_id;
  holding.baseline.reset();
  holding.written.reset();
  holding.replaced.reset();
  holding.status = SettingStatus::owed;
  for (SettingClaim& claim : holding.claims) {
    if (claim.until_wall) claim.until = now + (*claim.until_wall - wall);
  }
}

namespace {

bool matches(const std::optional<Setting>& setting, const SettingValue& value) {
  return setting && setting->value == value;
}

// Judges the first look in this boot, or since the driver was loaded.
Reconciliation reconcile_after_reload(const ManagedSetting& holding, const Setting& seen) {
  const auto target = effective_setting(holding);
  if (!target) return {ReconcileResult::nothing};
  return {*target == seen ? ReconcileResult::in_force : ReconcileResult::to_write, target, seen};
}

Reconciliation reconcile_unreadable(const ManagedSetting& holding) {
  const auto target = effective_setting(holding);
  const Setting none = unlocked(holding.kind);
  if (target) return {ReconcileResult::to_write, target, none};
  // gpuyard wrote nothing in this boot, so there is nothing to take back.
  if (!holding.written) return {ReconcileResult::nothing};
  return {ReconcileResult::to_write, none};
}

}  // namespace

bool is_own_value(const ManagedSetting& holding, const SettingValue& value) {
  return matches(holding.written, value) || matches(holding.replaced, value) ||
         matches(holding.baseline, value);
}

Reconciliation reconcile(const ManagedSetting& holding, const SettingState& seen) {
  if (!seen.now) return reconcile_unreadable(holding);
  const Setting now{holding.kind, seen.now};
  if (!holding.baseline) return reconcile_after_reload(holding, now);
  const auto target = effective_setting(holding).value_or(*holding.baseline);
  if (target == now) return {ReconcileResult::in_force, target};
  if (is_own_value(holding, *seen.now)) return {ReconcileResult::to_write, target};
  if (seen.by_default == seen.now) return reconcile_after_reload(holding, now);
  return {ReconcileResult::drifted};
}

}  // namespace gpuyard::control
