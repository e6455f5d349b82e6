#include "core/control/managed_setting.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpuyard::control {

const Claim* claim_in_force(const Holding& holding) {
  // min_element returns the first of equals: the oldest.
  const auto lowest = std::ranges::min_element(
      holding.claims, {}, [](const Claim& claim) { return claim.wanted.lowest; });
  return lowest == holding.claims.end() ? nullptr : &*lowest;
}

std::optional<Setting> wanted(const Holding& holding) {
  const Claim* claim = claim_in_force(holding);
  return claim == nullptr ? std::nullopt : std::optional(Setting{holding.kind, claim->wanted});
}

const Claim* find_claim(const Holding& holding, std::string_view owner) {
  const auto found = std::ranges::find(holding.claims, owner, &Claim::owner);
  return found == holding.claims.end() ? nullptr : &*found;
}

void place_claim(Holding& holding, Claim claim) {
  remove_claim(holding, claim.owner);
  holding.claims.push_back(std::move(claim));
}

bool remove_claim(Holding& holding, std::string_view owner) {
  return std::erase_if(holding.claims, [&](const Claim& one) { return one.owner == owner; }) > 0;
}

bool remove_expired(Holding& holding, TimePoint now) {
  return std::erase_if(holding.claims,
                       [&](const Claim& one) { return one.until && *one.until <= now; }) > 0;
}

std::optional<TimePoint> next_expiry(const Holding& holding) {
  std::optional<TimePoint> next;
  for (const Claim& claim : holding.claims) {
    if (claim.until && (!next || *claim.until < *next)) next = claim.until;
  }
  return next;
}

void carry_into_boot(Holding& holding, const std::string& boot_id, TimePoint now, WallTime wall) {
  if (holding.boot_id == boot_id) return;
  holding.boot_id = boot_id;
  holding.baseline.reset();
  holding.written.reset();
  holding.replaced.reset();
  holding.standing = Standing::owed;
  for (Claim& claim : holding.claims) {
    if (claim.until_wall) claim.until = now + (*claim.until_wall - wall);
  }
}

namespace {

bool is(const std::optional<Setting>& setting, const SettingValue& value) {
  return setting && setting->value == value;
}

// Judges the first look in this boot, or since the driver was loaded.
Reconciled start_anew(const Holding& holding, const Setting& seen) {
  const auto target = wanted(holding);
  if (!target) return {Finding::nothing};
  return {*target == seen ? Finding::in_force : Finding::to_write, target, seen};
}

Reconciled reconcile_unreadable(const Holding& holding) {
  const auto target = wanted(holding);
  const Setting none = unlocked(holding.kind);
  if (target) return {Finding::to_write, target, none};
  // gpuyard wrote nothing in this boot, so there is nothing to take back.
  if (!holding.written) return {Finding::nothing};
  return {Finding::to_write, none};
}

}  // namespace

bool is_ours(const Holding& holding, const SettingValue& value) {
  return is(holding.written, value) || is(holding.replaced, value) || is(holding.baseline, value);
}

Reconciled reconcile(const Holding& holding, const SettingState& seen) {
  if (!seen.now) return reconcile_unreadable(holding);
  const Setting now{holding.kind, seen.now};
  if (!holding.baseline) return start_anew(holding, now);
  const auto target = wanted(holding).value_or(*holding.baseline);
  if (target == now) return {Finding::in_force, target};
  if (is_ours(holding, *seen.now)) return {Finding::to_write, target};
  if (seen.by_default == seen.now) return start_anew(holding, now);
  return {Finding::drifted};
}

}  // namespace gpuyard::control
