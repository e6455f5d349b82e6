// Lists the GPUs that the driver counts, and those that it counted before, also in an earlier
// daemon: a board that is lost for good is not even counted by the next driver session, and must
// not look as if it had never been there. Pure state: the caller gives the time.
#pragma once

#include <cstddef>
#include <vector>

#include "base/clock.h"
#include "gpu/device/device.h"
#include "gpu/device/known_board.h"

namespace gpuyard::telemetry {

class Roster {
 public:
  // Takes the boards that an earlier daemon knew. Those that are not counted are missing, since
  // they were last seen.
  void restore(const std::vector<KnownBoard>&);
  // Takes the GPUs that the driver counts now.
  void update(const std::vector<DeviceInfo>& counted, WallTime wall);
  // Removes a missing board, because it was taken out for good. False: it is not a missing one.
  bool remove_missing(const DeviceId&);

  // Returns the list by index. A missing board has the fault "device lost" and a former_index. It
  // keeps its index unless another GPU has that now; then it gets a free one.
  std::vector<DeviceInfo> list() const;
  // Returns all boards that have a UUID, without their errors and their first time.
  std::vector<KnownBoard> known_boards(WallTime now) const;

  static constexpr std::size_t kMaxMissing = 64;

 private:
  struct MissingBoard {
    DeviceInfo info;
    WallTime last_seen;
  };

  void add_missing(const DeviceInfo&, WallTime last_seen);

  std::vector<KnownBoard> restored_;  // until the driver counts for the first time
  bool has_inventory_ = false;
  std::vector<DeviceInfo> counted_;
  std::vector<MissingBoard> missing_;  // oldest first
};

}  // namespace gpuyard::telemetry
