#include "control/reconcile.h"

namespace gpuyard::control {
namespace {

bool is(const std::optional<Setting>& setting, const SettingValue& value) {
  return setting && setting->value == value;
}

// The first look in this boot, or in the life of this driver.
Reconciled start_anew(const Holding& holding, const Setting& seen) {
  const auto target = wanted(holding);
  if (!target) return {Finding::nothing};
  if (*target == seen) return {Finding::in_force, target, seen};
  return {Finding::to_write, target, seen};
}

Reconciled reconcile_unreadable(const Holding& holding) {
  const auto target = wanted(holding);
  const Setting none = unlocked(holding.kind);
  if (target) return {Finding::to_write, target, none};
  // Nothing of ours was written in this boot, so there is nothing to take back.
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
