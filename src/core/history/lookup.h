// A question with all that memory has for it, to be answered on a worker: there the disk may be
// waited for, and a day of blocks decoded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "history/block.h"
#include "history/question.h"
#include "history/rings.h"
#include "history/timeline.h"

namespace gpuyard::history {

// What the history wants of a disk: minutes, for a month. It may be lost, and the rings go on
// without it. All calls come from one worker's thread, and may block it.

inline constexpr std::int64_t kHourMs = 60 * kMinuteMs;
inline constexpr std::int64_t kMinutesKeptMs = std::int64_t{30} * 24 * kHourMs;

struct SeriesKey {
  std::string uuid;
  std::string metric;  // JSON key with its unit, which outlives an enumerator
  std::uint16_t element = 0;

  friend bool operator==(const SeriesKey&, const SeriesKey&) = default;
};

struct Minutes {
  SeriesKey of;
  std::vector<Bucket> buckets;  // whole hours up to the newest: they replace what was put of these
};

// What one run has put of a series, told by the wall clock of its boot.
struct Past {
  DaemonRun run;
  bool present = false;  // the run that asks
  std::vector<Bucket> buckets;
};

class Store {
 public:
  virtual ~Store() = default;

  // All of it or nothing. `present` is the run that calls, the same each time but for its clock.
  virtual Result<void> put(const DaemonRun& present, const std::vector<Minutes>&) = 0;

  // Runs from the oldest to the newest, settled (wall_clock.h), with what is in [from, until) of
  // the wall clock and a minute around it.
  virtual Result<std::vector<Past>> get(const DaemonRun& present, const SeriesKey&,
                                        std::int64_t from_wall_ms, std::int64_t until_wall_ms) = 0;

  // What a reader of any answer should know: "history.db was damaged and began anew".
  virtual std::vector<std::string> notes() const = 0;
};

struct Lookup {
  Question question;
  std::int64_t cadence_ms = 0;
  DaemonRun run;  // the present one
  View<Point> readings;
  View<Bucket> tens;
  // Boot time from which memory has all there is.
  std::int64_t readings_since_ms = 0;
  std::int64_t tens_since_ms = 0;
  std::int64_t minutes_since_ms = 0;
};

// The finest resolution that reaches back to the question's begin; where only the store does,
// minutes, the newest of them from memory. What a store cannot tell is a note.
Answer answer(const Lookup&, Store&);

}  // namespace gpuyard::history
