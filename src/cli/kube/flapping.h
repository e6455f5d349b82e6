// Finds the GPUs that turn bad again and again. Andon's own hold and clear times come first; a
// cluster that gives such a GPU new work each time loses a job each time.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "faces/protocol/verdict.h"

namespace gpuyard::cli::kube {

// A GPU that turns bad this often within the window flaps.
inline constexpr std::size_t kFlapTurns = 3;
inline constexpr Duration kFlapWindow = std::chrono::hours(1);
// A flapping GPU counts as bad until it has been good for this long.
inline constexpr Duration kQuietTime = std::chrono::minutes(30);

struct FlapRecord {
  std::vector<TimePoint> turned_bad_at = {};  // the last kFlapTurns within the window
  bool is_bad = false;                        // at the last verdict that was good or bad
  bool is_flapping = false;
  std::optional<TimePoint> good_since = {};  // empty: it is bad, or was unknown just now
  std::string rule = {};                     // of its last alert
  std::string advice = {};

  friend bool operator==(const FlapRecord&, const FlapRecord&) = default;
};

using FlapRecords = std::map<std::string, FlapRecord>;  // by UUID

// Whether the driver answers and each GPU of the machine has its verdict here.
bool lists_all_gpus(const protocol::GpuVerdicts&);

// Unknown is neither bad nor quiet: it turns no GPU bad, and the quiet time begins again after it.
// A GPU that is no longer in the machine is forgotten an hour later.
void record_verdicts(FlapRecords&, const protocol::GpuVerdicts&, TimePoint now);
// As if all GPUs were unknown.
void record_silence(FlapRecords&);

// Returns the verdicts with bad for each good GPU that flaps, and why.
protocol::GpuVerdicts count_flapping_as_bad(protocol::GpuVerdicts, const FlapRecords&);

}  // namespace gpuyard::cli::kube
