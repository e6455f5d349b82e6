// The state of a public FakeFleet: the internal one.
#pragma once

#include "gpu/device/fake_backend.h"
#include "gpuyard/fake_fleet.h"

namespace gpuyard {

struct v0::FakeFleet::State {
  fakes::FakeFleet fleet;
};

}  // namespace gpuyard
