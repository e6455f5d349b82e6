// Sets the power limits that alerts ask for, and lifts them when the alerts are over. Derives what
// is to be lifted from the claims that are set, not from memory.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/loop.h"
#include "core/andon/alert_service.h"
#include "core/control/setting_controller.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::daemon {

class AlertCaps {
 public:
  // How long after a failure a limit is set again; the wait doubles each time, up to kLongest.
  static constexpr Duration kAgain = std::chrono::seconds(10);
  static constexpr Duration kLongest = std::chrono::minutes(10);

  // The references outlive it.
  AlertCaps(Loop& loop, control::Control& control, const andon::Board& board)
      : loop_(loop), control_(control), board_(board) {}
  AlertCaps(const AlertCaps&) = delete;
  AlertCaps& operator=(const AlertCaps&) = delete;

  // Called at each reading, once the alerts are known.
  void look(const Snapshot&);

 private:
  using Key = std::pair<DeviceId, std::string>;      // the GPU and the owner
  using Caps = std::map<std::string, std::int64_t>;  // milliwatts, by owner
  using Cap = std::optional<std::int64_t>;           // milliwatts; empty: the limit is to be lifted
  using Owed = std::map<Key, Cap>;
  struct Patience {
    Cap owed;
    TimePoint until;
    Duration next = kAgain;
  };

  std::map<DeviceId, Caps> wanted() const;
  Caps claimed(const DeviceId&) const;
  Owed owed_now(const Snapshot&) const;
  void ask(const Key&, const Cap&);

  Loop& loop_;
  control::Control& control_;
  const andon::Board& board_;
  std::set<Key> under_way_;
  std::map<Key, Patience> patience_;
  Lifetime here_;
};

}  // namespace gpuyard::daemon
