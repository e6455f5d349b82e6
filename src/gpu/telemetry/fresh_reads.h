// The reads of GPUs that callers wait for, beside the ticks: Telemetry's read_fresh(). Thread: io.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/lifetime.h"
#include "base/loop.h"
#include "gpu/device/device.h"
#include "gpu/device/snapshot.h"
#include "gpu/telemetry/poll_state.h"

namespace gpuyard::telemetry {

using SnapshotPtr = std::shared_ptr<const Snapshot>;
using OnFreshRead = std::function<void(const SnapshotPtr&)>;

// The longest time that a fresh read waits for a GPU.
inline constexpr Duration kFreshReadTimeout = std::chrono::milliseconds(250);

struct FreshRead {
  ProbeSet probes;
  bool every_gpu = false;
  std::set<DeviceId> gpus = {};  // if not every one
  TimePoint began_at = {};
  std::vector<OnFreshRead> callers = {};
};

bool is_covered(const PollState&, const FreshRead&);
// Returns the readings of these rows that were taken since the fresh read began.
Sample fresh_part(const Sample&, const FreshRead&);

// Callers that arrive before a read begins share it, and there is one read at a time.
class FreshReads {
 public:
  // `query` sends the queries of a read that begins; `assemble` makes the snapshot of one that has
  // ended. Neither is called inside join().
  FreshReads(Loop& loop, std::function<void(const FreshRead&)> query,
             std::function<Snapshot(const FreshRead&)> assemble)
      : loop_(loop), query_(std::move(query)), assemble_(std::move(assemble)) {}

  // Adds a caller to the next read, which covers what `read` has.
  void join(FreshRead read);
  // Ends the current read once every GPU worth waiting for has answered since it began. A GPU that
  // is unresponsive or cannot be read is not worth waiting for.
  void finish_if_complete(const std::vector<PollState>&);
  // Ends the current read now.
  void finish();

 private:
  void schedule();
  void begin_after(int turns);
  void begin();
  bool is_reading() const { return !current_.callers.empty(); }

  Loop& loop_;
  const std::function<void(const FreshRead&)> query_;
  const std::function<Snapshot(const FreshRead&)> assemble_;
  FreshRead current_;  // in progress while it has callers
  FreshRead next_;     // the callers that arrived meanwhile
  bool scheduled_ = false;
  Subscription timeout_;
  Lifetime lifetime_;
};

}  // namespace gpuyard::telemetry
