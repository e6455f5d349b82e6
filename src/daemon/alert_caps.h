// Holds the power limits that alerts ask for, and gives them up when the alerts are over: looks
// through what is claimed, instead of remembering what is owed.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "andon/board.h"
#include "base/loop.h"
#include "control/control.h"
#include "device/snapshot.h"

namespace gpuyard::daemon {

class AlertCaps {
 public:
  // What could not be set is tried again after this, and after twice as long each time.
  static constexpr Duration kAgain = std::chrono::seconds(10);
  static constexpr Duration kLongest = std::chrono::minutes(10);

  // These outlive it.
  AlertCaps(Loop& loop, control::Control& control, const andon::Board& board)
      : loop_(loop), control_(control), board_(board) {}
  AlertCaps(const AlertCaps&) = delete;
  AlertCaps& operator=(const AlertCaps&) = delete;

  // At each reading, once the alerts are known.
  void look(const Snapshot&);

 private:
  using Key = std::pair<DeviceId, std::string>;      // and the owner
  using Caps = std::map<std::string, std::int64_t>;  // milliwatts, by owner
  using Cap = std::optional<std::int64_t>;           // milliwatts; nothing: it is to be lifted
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
