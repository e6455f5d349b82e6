// Shared by the archives of GPU records that are kept on a disk, such as those of processes. A
// record has its GPU (gpu), the first and last time it was observed (first_seen, last_seen),
// whether it is over, and a name() by which a later form replaces it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/worker.h"
#include "gpu/device/device.h"

namespace gpuyard {

// Selects the records that touch [from, until).
template <class Record>
struct RecordQuery {
  WallTime from;
  WallTime until;
  std::vector<DeviceId> gpus = {};  // empty: all
  std::size_t most = 0;

  bool matches(const Record& one) const {
    const bool in_time = one.first_seen < until && one.last_seen >= from;
    return in_time && (gpus.empty() || std::ranges::find(gpus, one.gpu) != gpus.end());
  }
};

// Keeps records on a disk, for a month and up to a number. Thread: one worker's,
// which its calls may block.
template <class Record>
class RecordArchive {
 public:
  virtual ~RecordArchive() = default;
  // Adds records, or replaces those of the same name.
  virtual Result<void> put(const std::vector<Record>&) = 0;
  // Returns the newest first, and one more than `most` if there are more.
  virtual Result<std::vector<Record>> get(const RecordQuery<Record>&) = 0;
};

// Gives records to an archive, in batches. Thread: io; it outlives the worker's tasks.
template <class Record>
class ArchiveWriter {
 public:
  // The most records that wait for the disk. Beyond it the oldest are dropped.
  static constexpr std::size_t kMaxQueuedRecords = 16'384;

  ArchiveWriter(Worker& worker, std::shared_ptr<RecordArchive<Record>> archive)
      : worker_(worker), archive_(std::move(archive)) {}

  const std::shared_ptr<RecordArchive<Record>>& archive() const { return archive_; }

  void add(const Record& record) {
    if (queued_.size() >= kMaxQueuedRecords) queued_.erase(queued_.begin());
    queued_.push_back(record);
  }

  // Records that cannot be written wait for the next call; the archive itself reports the error.
  void flush() {
    if (writing_ || queued_.empty()) return;
    const auto batch = std::make_shared<const std::vector<Record>>(std::exchange(queued_, {}));
    writing_ = run_on_worker(
        worker_, [archive = archive_, batch] { return archive->put(*batch); },
        [this, batch](const Result<void>& done) {
          writing_ = false;
          if (!done) requeue(*batch);
        });
    if (!writing_) requeue(*batch);
  }
  // Flushes even while another batch is under way; called before the end.
  void flush_last() {
    writing_ = false;
    flush();
  }

 private:
  void requeue(std::vector<Record> all) {
    all.insert(all.end(), queued_.begin(), queued_.end());
    if (all.size() > kMaxQueuedRecords) {
      all.erase(all.begin(), std::prev(all.end(), static_cast<std::ptrdiff_t>(kMaxQueuedRecords)));
    }
    queued_ = std::move(all);
  }

  Worker& worker_;
  std::shared_ptr<RecordArchive<Record>> archive_;
  std::vector<Record> queued_;
  bool writing_ = false;
};

// Returns the archive's records and the open ones of `here`, which replace those of the same name,
// the newest first. Runs on the worker.
template <class Record>
Result<std::vector<Record>> merge_open_records(const RecordQuery<Record>& query,
                                               RecordArchive<Record>& archive,
                                               const std::vector<Record>& here) {
  auto records = archive.get(query);
  if (!records) return records;
  std::set<decltype(std::declval<Record>().name())> now;
  for (const Record& one : here) now.insert(one.name());
  std::erase_if(*records, [&](const Record& one) { return now.contains(one.name()); });
  // A daemon that was killed left records open that are over now.
  for (Record& one : *records) one.over = true;
  std::ranges::copy_if(here, std::back_inserter(*records),
                       [&](const Record& one) { return query.matches(one); });
  std::ranges::sort(*records, [](const Record& a, const Record& b) {
    if (a.first_seen != b.first_seen) return a.first_seen > b.first_seen;
    return a.name() < b.name();
  });
  if (records->size() > query.most + 1) records->resize(query.most + 1);
  return records;
}

}  // namespace gpuyard
