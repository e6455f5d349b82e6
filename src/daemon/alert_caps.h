// Sets the power limits that alerts ask for, and lifts them when the alerts are over. Derives what
// is to be lifted from the claims that are set, not from memory.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/lifetime.h"
#include "base/loop.h"
#include "core/andon/alert_service.h"
#include "core/control/setting_controller.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::daemon {

// Thread: io.
class AlertCaps {
 public:
  // The delay before a limit is set again after a failure; it doubles each time, up to
  // kMaxRetryDelay.
  static constexpr Duration kMinRetryDelay = std::chrono::seconds(10);
  static constexpr Duration kMaxRetryDelay = std::chrono::minutes(10);

  // The references outlive it.
  AlertCaps(Loop& loop, control::SettingController& control, const andon::AlertService& alerts)
      : loop_(loop), control_(control), alerts_(alerts) {}
  AlertCaps(const AlertCaps&) = delete;
  AlertCaps& operator=(const AlertCaps&) = delete;

  // Called at each reading, once the alerts are known.
  void update(const Snapshot&);

 private:
  using Key = std::pair<DeviceId, std::string>;      // the GPU and the owner
  using Caps = std::map<std::string, std::int64_t>;  // milliwatts, by owner
  using Cap = std::optional<std::int64_t>;           // milliwatts; empty: the limit is to be lifted
  using OwedCaps = std::map<Key, Cap>;
  struct BackOff {
    Cap owed;
    TimePoint retry_at;
    Duration delay = kMinRetryDelay;
  };

  std::map<DeviceId, Caps> requested_caps() const;
  Caps claimed_caps(const DeviceId&) const;
  OwedCaps owed_caps(const Snapshot&) const;
  void submit(const Key&, const Cap&);

  Loop& loop_;
  control::SettingController& control_;
  const andon::AlertService& alerts_;
  std::set<Key> pending_;
  std::map<Key, BackOff> back_offs_;
  Lifetime lifetime_;
};

}  // namespace gpuyard::daemon
