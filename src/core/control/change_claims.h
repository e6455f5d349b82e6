// Who may change which claims, and to what. Pure.
#pragma once

#include "base/result.h"
#include "control/holding.h"
#include "control/order.h"

namespace gpuyard::control {

// When it is.
struct Moment {
  TimePoint now;
  WallTime wall;
};

// Does to the claims of `holding` what the order says. Errors: conflict, with who has it until
// when; not_found, the asker wants nothing of it; busy, too many want it.
Result<void> change_claims(Holding& holding, const Order&, const DeviceInfo&, Moment);

}  // namespace gpuyard::control
