#include "daemon/daemon.h"

#include <ranges>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/scratch_directory_for_tests.h"

namespace gpuyard::daemon {
namespace {

// Alerts come before leases, so that a GPU that they quarantine is not granted from this reading
// on; energy before usage, which divides its joules among leases; what shows a snapshot before what
// acts on it.
TEST(Daemon, SnapshotReachesItsConsumersInThisOrder) {
  const ScratchDirectory directory;
  ServeOptions options;
  options.config.state.directory = directory.path();
  http::IoLoop loop;
  const Daemon daemon(loop, options, {}, 1024);
  const auto names = daemon.snapshot_consumers() | std::views::keys;
  EXPECT_THAT(std::vector(names.begin(), names.end()),
              testing::ElementsAre("driver", "api", "changes", "machine memory", "recorders",
                                   "energy", "alerts", "leases", "usage", "readiness"));
}

}  // namespace
}  // namespace gpuyard::daemon
