// The processes that were on GPUs: when each was seen first and last, and the most memory it had.
// Keeps open spans in memory, and writes every start and end to an archive.
//
// Thread: io; the archive is used by tasks of the worker, which outlives the recorder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "gpu/device/record_archive.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::processes {

// One process on one GPU. Wall times are as the clock was when they were taken.
struct ProcessSpan {
  DeviceId gpu;
  std::uint32_t pid = 0;
  // With the pid it names one process of a boot: milliseconds from the boot to its start. 0: not
  // read yet; below 0: it ended before that.
  std::int64_t started_boot_ms = 0;
  std::string boot_id = {};
  std::optional<WallTime> started = {};
  std::optional<std::uint32_t> uid = {};
  std::string user = {};     // "": not known
  std::string command = {};  // the same
  std::string lease = {};    // that had the GPU at first_seen; "": none
  std::optional<std::int64_t> peak_memory_bytes = {};
  WallTime first_seen = {};
  WallTime last_seen = {};
  bool over = false;

  auto name() const { return std::tuple(gpu, boot_id, pid, started_boot_ms); }
  friend bool operator==(const ProcessSpan&, const ProcessSpan&) = default;
};

using ProcessSpanQuery = RecordQuery<ProcessSpan>;
using ProcessSpanArchive = RecordArchive<ProcessSpan>;

class ProcessRecorder {
 public:
  // The most processes that are tracked at a time. Further ones are not recorded.
  static constexpr std::size_t kMaxOpenSpans = 4096;
  // Open spans are written at this interval, so that a daemon that is killed loses no more.
  static constexpr Duration kSaveInterval = std::chrono::minutes(5);

  ProcessRecorder(Worker& worker, std::shared_ptr<ProcessSpanArchive> archive, std::string boot_id)
      : boot_id_(std::move(boot_id)), writer_(worker, std::move(archive)) {}

  // Returns the lease that has a GPU; "": none.
  using LeaseLookup = std::function<std::string(const DeviceId&)>;
  void on_snapshot(const Snapshot&, const ProcessDirectory&, const LeaseLookup&);

  // For a task on the worker, with archive(): merge_open_records().
  std::vector<ProcessSpan> open_spans() const;
  const std::shared_ptr<ProcessSpanArchive>& archive() const { return writer_.archive(); }

  // Gives the worker all that is not on disk yet; called before the end.
  void flush();

 private:
  // Names a process while it is there: a number that is reused in between has another start.
  using Key = std::tuple<DeviceId, std::uint32_t>;
  struct OpenSpan {
    ProcessSpan span;
    bool saved = false;
  };

  void update_spans(const DeviceState&, const ProcessList&, const Snapshot&,
                    const ProcessDirectory&, const LeaseLookup&);
  void end_span(OpenSpan&);

  std::string boot_id_;
  std::map<Key, OpenSpan> open_spans_;
  std::map<DeviceId, TimePoint> listed_at_;  // the newest list that was recorded
  ArchiveWriter<ProcessSpan> writer_;
  TimePoint last_save_at_;
};

}  // namespace gpuyard::processes
