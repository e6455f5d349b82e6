#include "core/control/managed_setting.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpuyard::control {

const SettingClaim* effective_claim(const ManagedSetting& managed) {
  // min_element returns the first of equals: the oldest.
  const auto lowest = std::ranges::min_element(
      managed.claims, {}, [](const SettingClaim& claim) { return claim.value.lowest; });
  return lowest == managed.claims.end() ? nullptr : &*lowest;
}

std::optional<Setting> effective_setting(const ManagedSetting& managed) {
  const SettingClaim* claim = effective_claim(managed);
  return claim == nullptr ? std::nullopt : std::optional(Setting{managed.kind, claim->value});
}

const SettingClaim* find_claim(const ManagedSetting& managed, std::string_view owner) {
  const auto found = std::ranges::find(managed.claims, owner, &SettingClaim::owner);
  return found == managed.claims.end() ? nullptr : &*found;
}

void set_claim(ManagedSetting& managed, SettingClaim claim) {
  remove_claim(managed, claim.owner);
  managed.claims.push_back(std::move(claim));
}

bool remove_claim(ManagedSetting& managed, std::string_view owner) {
  return std::erase_if(managed.claims,
                       [&](const SettingClaim& one) { return one.owner == owner; }) > 0;
}

bool remove_expired(ManagedSetting& managed, TimePoint now) {
  return std::erase_if(managed.claims,
                       [&](const SettingClaim& one) { return one.until && *one.until <= now; }) > 0;
}

std::optional<TimePoint> next_expiry(const ManagedSetting& managed) {
  std::optional<TimePoint> next;
  for (const SettingClaim& claim : managed.claims) {
    if (claim.until && (!next || *claim.until < *next)) next = claim.until;
  }
  return next;
}

void rebase_to_boot(ManagedSetting& managed, const std::string& boot_id, TimePoint now,
                    WallTime wall) {
  if (managed.boot_id == boot_id) return;
  managed.boot_id = boot_id;
  managed.status = SettingStatus::owed;
  if (!outlives_boot(managed.kind)) {
    managed.baseline.reset();
    managed.written.reset();
    managed.replaced.reset();
  }
  for (SettingClaim& claim : managed.claims) {
    if (claim.until_wall) claim.until = now + (*claim.until_wall - wall);
  }
}

namespace {

bool matches(const std::optional<Setting>& setting, const SettingValue& value) {
  return setting && setting->value == value;
}

// Judges the first read in this boot, or since the driver was loaded.
Reconciliation reconcile_after_reload(const ManagedSetting& managed, const Setting& current) {
  const auto target = effective_setting(managed);
  if (!target) return {ReconcileResult::nothing};
  return {*target == current ? ReconcileResult::in_force : ReconcileResult::to_write, target,
          current};
}

Reconciliation reconcile_unreadable(const ManagedSetting& managed) {
  const auto target = effective_setting(managed);
  const Setting none = unlocked(managed.kind);
  if (target) return {ReconcileResult::to_write, target, none};
  // gpuyard wrote nothing in this boot, so there is nothing to undo.
  if (!managed.written) return {ReconcileResult::nothing};
  return {ReconcileResult::to_write, none};
}

}  // namespace

bool is_own_value(const ManagedSetting& managed, const SettingValue& value) {
  return matches(managed.written, value) || matches(managed.replaced, value) ||
         matches(managed.baseline, value);
}

Reconciliation reconcile(const ManagedSetting& managed, const SettingState& state) {
  if (!state.now) return reconcile_unreadable(managed);
  const Setting now{managed.kind, state.now};
  if (!managed.baseline) return reconcile_after_reload(managed, now);
  const auto target = effective_setting(managed).value_or(*managed.baseline);
  if (target == now) return {ReconcileResult::in_force, target};
  if (is_own_value(managed, *state.now)) return {ReconcileResult::to_write, target};
  if (state.by_default == state.now) return reconcile_after_reload(managed, now);
  return {ReconcileResult::drifted};
}

}  // namespace gpuyard::control
