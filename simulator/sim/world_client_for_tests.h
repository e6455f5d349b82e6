// A fixture for tests that start world servers. Part of no library.
#pragma once

#include <string>

#include "sim/world_for_tests.h"

namespace gpuyard::sim {

class WorldClientTest : public ::testing::Test {
 public:
  ~WorldClientTest() override { (void)stop_world(directory()).ok(); }

 protected:
  WorldOptions options() const {
    return {.directory = directory_.path() + "/world", .gpus = 4, .program = SIM_KEEPER_PROGRAM};
  }
  std::string directory() const { return options().directory; }

  Result<RunningWorld> start(WorldLifetime lifetime = WorldLifetime::with_creator) const {
    return start_world(options(), lifetime);
  }

 private:
  ScratchDirectory directory_;
};

}  // namespace gpuyard::sim
