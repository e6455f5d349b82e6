// Puts back what was set with a lease when that lease is over, whatever came between: looks through
// what is set, instead of remembering what is owed.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/loop.h"
#include "control/control.h"
#include "lease/leases.h"

namespace gpuyard::daemon {

class LeaseSettings {
 public:
  // What could not be put back is tried again after this.
  static constexpr Duration kAgain = std::chrono::seconds(10);

  // These outlive it.
  LeaseSettings(Loop& loop, control::Control& control, const lease::Leases& leases)
      : loop_(loop), control_(control), leases_(leases) {}

  // Some lease may be over. Cheap: at each reading.
  void look();
  // What is still set of the GPUs of a lease that drains, for people; nothing: all is put back.
  std::optional<std::string> left(const lease::Lease&) const;

 private:
  std::set<std::string> orphans(const DeviceId&) const;
  void put_back(const DeviceId&, const std::string& owner);

  Loop& loop_;
  control::Control& control_;
  const lease::Leases& leases_;
  std::set<std::pair<DeviceId, std::string>> under_way_;
  TimePoint not_before_{};
  std::shared_ptr<LeaseSettings*> self_ = std::make_shared<LeaseSettings*>(this);
};

}  // namespace gpuyard::daemon
