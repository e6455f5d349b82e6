// The managed settings of one GPU, in memory and where they outlive the daemon.
//
// Thread: io.
#pragma once

#include <map>
#include <set>
#include <utility>

#include "base/lifetime.h"
#include "base/loop.h"
#include "core/control/audit.h"
#include "core/control/managed_setting.h"

namespace gpuyard::control {

class GpuSettings {
 public:
  static constexpr Duration kRetryDelay = std::chrono::seconds(10);

  // The references outlive it.
  GpuSettings(Loop& loop, ControlStorage& storage, DeviceId gpu)
      : loop_(loop), storage_(storage), gpu_(std::move(gpu)) {}

  // Takes over a managed setting that an earlier daemon saved.
  void recover(ManagedSetting managed) { settings_[managed.kind] = std::move(managed); }
  const std::map<SettingKind, ManagedSetting>& all() const { return settings_; }
  const ManagedSetting* find(SettingKind) const;

  // Saves the setting where it outlives the daemon, and then in memory; in neither if that fails.
  // May call back inside the call.
  void persist(const ManagedSetting&, ControlStorage::OnSaved on_done);
  // Saves the setting in memory at once, and where it outlives the daemon as soon as possible: for
  // a change that has happened already.
  void record(const ManagedSetting&, CommitTiming = CommitTiming::now);
  // Removes a managed setting in the same way.
  void remove(SettingKind);

 private:
  bool record_at_once(const ControlTransaction&);
  void save(SettingKind, CommitTiming);
  ControlStorage::OnSaved on_saved(SettingKind);
  void save_later(SettingKind);

  Loop& loop_;
  ControlStorage& storage_;
  const DeviceId gpu_;
  std::map<SettingKind, ManagedSetting> settings_;
  std::set<SettingKind> unsaved_;  // changed in memory, but not yet on the disk
  Subscription retry_timer_;
  Lifetime lifetime_;
};

}  // namespace gpuyard::control
