// A query together with the data in memory for it. A worker executes it, where waiting for the disk
// and decoding a day of blocks do no harm.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/history/block.h"
#include "core/history/query.h"
#include "core/history/rings.h"
#include "core/history/timeline.h"

namespace gpuyard::history {

inline constexpr std::int64_t kHourMs = 60 * kMinuteMs;
inline constexpr std::int64_t kMinuteRetentionMs = std::int64_t{30} * 24 * kHourMs;

struct SeriesKey {
  std::string uuid;
  std::string metric;  // JSON key with its unit, which outlives an enumerator
  std::uint16_t element = 0;

  friend bool operator==(const SeriesKey&, const SeriesKey&) = default;
};

struct SeriesMinutes {
  SeriesKey key;
  std::vector<Bucket> buckets;  // of whole hours up to the newest; they replace earlier puts
};

// The minutes that one run has put of a series, on the wall clock of its boot.
struct RunMinutes {
  DaemonRun run;
  bool present = false;  // true: the run that queries
  std::vector<Bucket> buckets;
};

// Keeps minutes on a disk, for a month. If it is lost, the rings go on without it.
//
// Thread: worker, one only; each call may block it.
class MinuteStorage {
 public:
  virtual ~MinuteStorage() = default;

  // Keeps all of it or nothing. `present` is the calling run, always the same but for its clock.
  virtual Result<void> put(const DaemonRun& present, const std::vector<SeriesMinutes>&) = 0;

  // Returns runs from the oldest to the newest, aligned (align_runs()), with their minutes in
  // [from, until) of the wall clock and a minute around it.
  virtual Result<std::vector<RunMinutes>> get(const DaemonRun& present, const SeriesKey&,
                                              std::int64_t from_wall_ms,
                                              std::int64_t until_wall_ms) = 0;

  // Returns notes for the readers of any result: "the history on disk was replaced ...".
  virtual std::vector<std::string> notes() const = 0;
};

struct PreparedQuery {
  Query query;
  std::int64_t cadence_ms = 0;
  DaemonRun run;  // the present one
  View<Point> readings;
  View<Bucket> ten_second_buckets;
  // Boot times from which memory has all there is.
  std::int64_t readings_since_ms = 0;
  std::int64_t ten_seconds_since_ms = 0;
  std::int64_t minutes_since_ms = 0;
};

// Uses the finest resolution that reaches back to the query's begin. If only the storage reaches
// back, that is minutes, the newest of them from memory. A failure of the storage is a note.
//
// Thread: worker.
QueryResult execute_query(const PreparedQuery&, MinuteStorage&);

// Returns how long before a moment its value may have been read, however coarsely it is kept.
std::int64_t max_age_of(std::int64_t cadence_ms);
// Returns the value at the end of a result: its newest reading, or the mean of the newest step (of
// a counter its end), if that is as near as its resolution allows. Nothing: a gap, or nothing kept.
std::optional<std::int64_t> value_at(const QueryResult&, std::int64_t at_ms);

}  // namespace gpuyard::history
