// The history of the GPUs' readings: rings in memory, minutes on disk.
//
// Each snapshot adds the readings that are newer than their series' last. A stale or missing
// reading adds no point, so that a gap is a time without points. A point is an int64 in the row's
// native unit with the boot clock's milliseconds. 300 points make a block (block.h), which
// never changes. Minutes go to history.db, a block for each series, run of the daemon and hour; the
// current hour is put again every five minutes, one GPU at a tick. Wall time is boot time plus one
// offset for each boot, the newest that is known.
//
// Thread: io; work that waits for the disk or takes long goes to a worker. The loop and the worker
// outlive the history.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/worker.h"
#include "core/history/block.h"
#include "core/history/prepared_query.h"
#include "core/history/rings.h"
#include "core/history/timeline.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::history {

// A GPU's new minutes go to disk at this interval, in ms. A daemon that is killed loses at most
// this much.
inline constexpr std::int64_t kSaveIntervalMs = 5 * kMinuteMs;

class History {
 public:
  // Only the worker's tasks touch `storage`.
  History(Loop&, Worker&, std::shared_ptr<MinuteStorage> storage, std::string boot_id);

  void on_snapshot(const Snapshot&);

  // Returns the history's wall time.
  std::int64_t now_ms() const;

  // Takes the results of all queries, in their order; it runs on the worker.
  using Render = std::function<Result<std::string>(const std::vector<QueryResult>&)>;
  using OnDone = std::function<void(Result<std::string>)>;
  // `on_done` runs on the loop. Errc::busy: the worker's queue is full.
  void query(const std::vector<Query>&, Render render, OnDone on_done);

  // The queries whose results have a GPU's values at one moment (value_at()): one for each of its
  // series in memory, and of those in `now`.
  std::vector<Query> queries_at(const std::string& uuid, const Sample& now,
                                std::int64_t at_ms) const;

  // Gives the worker all that is not on disk yet; called before the end.
  void flush();

  const Rings& rings() const { return rings_; }

 private:
  void flush_next_due();
  bool save(const std::string& uuid, const Rings::Gpu&);
  PreparedQuery prepare_query(const Query&) const;

  Loop& loop_;
  Worker& worker_;
  std::shared_ptr<MinuteStorage> storage_;
  WallClock clock_;
  Rings rings_;
  using TimesMs = std::map<std::string, std::int64_t>;  // by UUID
  // All hours before are on disk. Shared with tasks, which may outlive the history.
  std::shared_ptr<TimesMs> stored_hour_ms_ = std::make_shared<TimesMs>();
  TimesMs saved_at_ms_;  // the last put, or the first snapshot
};

}  // namespace gpuyard::history
