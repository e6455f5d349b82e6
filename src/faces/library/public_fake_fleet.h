// What a public FakeFleet holds: the house's.
#pragma once

#include "device/fake_backend.h"
#include "gpuyard/fake_fleet.h"

namespace gpuyard {

struct v0::FakeFleet::State {
  fakes::FakeFleet fleet;
};

}  // namespace gpuyard
