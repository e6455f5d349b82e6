// What can be set of one GPU that exists only in memory.
#pragma once

#include <map>
#include <optional>

#include "base/result.h"
#include "device/setting.h"

namespace gpuyard::fakes {

class FakeSettings {
 public:
  // As of a data centre GPU: 300 W of 100 to 400, clocks that lock within 210 to 1980 MHz, of the
  // memory within 1593 to 2619, no persistence, ECC on.
  FakeSettings();

  // Errc::unsupported: no such thing here. Errc::invalid: out of range, in a driver's few words.
  Result<SettingState> look(SettingKind) const;
  Result<void> apply(const Setting&);

  void put(SettingKind kind, const SettingState& state) { states_[kind] = state; }
  void forget(SettingKind kind) { states_.erase(kind); }
  // Writing fails so, until there is nothing wrong any more.
  void fail_writes(SettingKind, std::optional<Error> why);

 private:
  std::map<SettingKind, SettingState> states_;
  std::map<SettingKind, Error> faults_;
};

}  // namespace gpuyard::fakes
