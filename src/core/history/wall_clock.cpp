#include "history/wall_clock.h"

#include <cstdlib>
#include <limits>
#include <map>

namespace gpuyard::history {
namespace {

// Less than this is the time between two system calls, or a clock that is slewed: to follow each
// would give a point another time whenever it is asked for.
constexpr std::int64_t kFollowedMs = 100;
// From here on somebody has set the clock.
constexpr std::int64_t kStepMs = 1000;

}  // namespace

void WallClock::note(TimePoint now, WallTime wall) {
  const std::int64_t at_ms = to_milliseconds(now.time_since_epoch());
  const std::int64_t offset = wall.time_since_epoch().count() - at_ms;
  const std::int64_t moved = offset - run_.wall_offset_ms;
  if (!noted_) run_.first_ms = at_ms;
  if (noted_ && std::abs(moved) >= kStepMs) {
    if (run_.steps.size() == kMaxClockSteps) run_.steps.erase(run_.steps.begin());
    run_.steps.push_back({at_ms, moved});
  }
  if (!noted_ || std::abs(moved) >= kFollowedMs) run_.wall_offset_ms = offset;
  run_.last_ms = at_ms;
  noted_ = true;
}

void settle(std::vector<DaemonRun>& runs) {
  std::map<std::string, std::int64_t> offsets;
  std::int64_t next_began = std::numeric_limits<std::int64_t>::max();  // wall time of the next boot
  std::int64_t began = next_began;                                     // of the one at hand
  const std::string* boot = nullptr;
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    if (boot == nullptr || *boot != run->boot_id) next_began = began;
    boot = &run->boot_id;
    const auto [known, fresh] = offsets.try_emplace(run->boot_id, run->wall_offset_ms);
    std::int64_t& offset = known->second;
    if (fresh && run->last_ms + offset >= next_began) offset = next_began - run->last_ms - 1;
    run->wall_offset_ms = offset;
    began = run->first_ms + offset;
  }
}

}  // namespace gpuyard::history
