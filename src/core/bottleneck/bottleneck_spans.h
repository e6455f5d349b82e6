// Why each GPU was slow: the spans of time with one cause, kept on a disk. "Fine" is a cause too,
// so each second with a verdict belongs to one span, and the time without one is not known. Keeps
// open spans in memory, and writes every start and end to an archive.
//
// Thread: io; the archive is used by tasks of the worker, which outlives the recorder.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "gpu/device/bottleneck.h"
#include "gpu/device/record_archive.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::bottleneck {

// Wall times are as the clock was when they were taken.
struct BottleneckSpan {
  DeviceId gpu;
  // As it was at its worst: with its greatest share, or the longest.
  Bottleneck bottleneck = {};
  WallTime first_seen = {};
  WallTime last_seen = {};  // its end, or the last moment at which it is known
  bool over = false;

  auto name() const { return std::tuple(gpu, first_seen); }
  friend bool operator==(const BottleneckSpan&, const BottleneckSpan&) = default;
};

using BottleneckSpanQuery = RecordQuery<BottleneckSpan>;
using BottleneckSpanArchive = RecordArchive<BottleneckSpan>;

class BottleneckRecorder {
 public:
  // A span lasts at least this long. A cause found sooner begins its span afterwards, if it is
  // still there, so that one that comes and goes makes at most 8640 spans a day.
  static constexpr auto kMinSpanDuration = std::chrono::seconds(10);
  // Between two snapshots. A span does not go on over a longer time, of which nothing is known.
  static constexpr auto kMaxGap = std::chrono::seconds(15);
  // Open spans are written at this interval, so that a daemon that is killed loses no more.
  static constexpr Duration kSaveInterval = std::chrono::minutes(1);

  BottleneckRecorder(Worker& worker, std::shared_ptr<BottleneckSpanArchive> archive)
      : writer_(worker, std::move(archive)) {}

  // Records the results of BottleneckDetector::detect().
  void on_snapshot(const Snapshot&);

  // For a task on the worker, with archive(): merge_open_records().
  std::vector<BottleneckSpan> open_spans() const;
  const std::shared_ptr<BottleneckSpanArchive>& archive() const { return writer_.archive(); }

  // Gives the worker all that is not on disk yet; called before the end.
  void flush();

 private:
  void update_span(const DeviceState&, WallTime);
  void end_span(BottleneckSpan&);

  std::map<DeviceId, BottleneckSpan> open_spans_;
  ArchiveWriter<BottleneckSpan> writer_;
  TimePoint last_save_at_;
};

// Returns the span of a GPU at a moment, of the newest first; null: none is known. The moment of a
// change belongs to the span that begins, even if nothing was read after it.
const BottleneckSpan* span_at(const std::vector<BottleneckSpan>&, const DeviceId&, WallTime at);

// Returns how long each cause lasted within [from, until), of the spans of a GPU, the newest first.
// Moments that two spans have, because the clock was set back, count once.
std::map<BottleneckCause, std::chrono::milliseconds> duration_by_cause(
    const std::vector<BottleneckSpan>&, const DeviceId&, WallTime from, WallTime until);

}  // namespace gpuyard::bottleneck
