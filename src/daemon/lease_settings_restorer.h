// Restores what was set with a lease when that lease is over, even after a crash. Derives what is
// to be restored from the settings in force, not from memory.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/lifetime.h"
#include "base/loop.h"
#include "core/control/setting_controller.h"
#include "core/lease/lease_manager.h"

namespace gpuyard::daemon {

// Thread: io.
class LeaseSettingsRestorer {
 public:
  // The delay before settings are restored again after a failure.
  static constexpr Duration kRetryDelay = std::chrono::seconds(10);

  // The references outlive it.
  LeaseSettingsRestorer(Loop& loop, control::SettingController& control,
                        const lease::LeaseManager& leases)
      : loop_(loop), control_(control), leases_(leases) {}

  // Restores the settings of leases that are over. Cheap: called at each reading.
  void restore_ended();
  // Returns what is still set of the GPUs of a draining lease, for people; nothing: all is
  // restored.
  std::optional<std::string> unrestored_text(const lease::Lease&) const;

 private:
  std::set<std::string> orphaned_owners(const DeviceId&) const;
  void restore(const DeviceId&, const std::string& owner);

  Loop& loop_;
  control::SettingController& control_;
  const lease::LeaseManager& leases_;
  std::set<std::pair<DeviceId, std::string>> pending_;
  TimePoint not_before_{};
  Lifetime lifetime_;
};

}  // namespace gpuyard::daemon
