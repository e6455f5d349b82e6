// history.db: the minutes of a month, one block for each series, run of the daemon and hour; the
// processes that were on the GPUs in it, and why the GPUs were slow. The file may be thrown away:
// one that is damaged, or has another schema version, is moved aside, and a new one is begun. A
// full or read-only disk is logged once and tried again with the next put.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/history/history.h"
#include "io/store/history_tables.h"

namespace gpuyard::store {

// The size of history.db in bytes beyond which the oldest days are pruned. A month of eight H100s
// takes a twentieth of it.
inline constexpr std::int64_t kMaxHistoryBytes = std::int64_t{1} << 30U;

// The most process spans, and bottleneck spans, that are kept.
inline constexpr std::int64_t kMaxProcessSpans = 100'000;
inline constexpr std::int64_t kMaxBottleneckSpans = 100'000;

// Thread: io.
class HistoryDb final : public history::MinuteStorage,
                        public processes::ProcessSpanArchive,
                        public bottleneck::BottleneckSpanArchive {
 public:
  // Touches no disk yet.
  explicit HistoryDb(std::string path, std::int64_t max_bytes = kMaxHistoryBytes)
      : path_(std::move(path)), max_bytes_(max_bytes) {}

  Result<void> put(const history::DaemonRun& present,
                   const std::vector<history::SeriesMinutes>&) override;
  Result<std::vector<history::RunMinutes>> get(const history::DaemonRun& present,
                                               const history::SeriesKey&, std::int64_t from_wall_ms,
                                               std::int64_t until_wall_ms) override;
  std::vector<std::string> notes() const override;

  Result<void> put(const std::vector<processes::ProcessSpan>&) override;
  Result<std::vector<processes::ProcessSpan>> get(const processes::ProcessSpanQuery&) override;
  Result<void> put(const std::vector<bottleneck::BottleneckSpan>&) override;
  Result<std::vector<bottleneck::BottleneckSpan>> get(
      const bottleneck::BottleneckSpanQuery&) override;

 private:
  Result<void> open();
  // Does this in a transaction, in a new file if ours is damaged, and records how it went.
  template <class Work>
  Result<void> commit(const Work&);
  template <class Work>
  Result<void> in_transaction(const Work&);
  // The table of the process spans or of the bottleneck spans.
  struct RecordTable {
    const char* table;
    std::int64_t max_rows;
    std::optional<WallTime> pruned_at = {};  // when it was last done
  };
  template <class Record>
  Result<void> put_records(const std::vector<Record>&, RecordTable&);
  template <class Record>
  Result<std::vector<Record>> get_records(const RecordQuery<Record>&);
  Result<void> write(const history::DaemonRun& present, const std::vector<history::SeriesMinutes>&);
  Result<std::vector<history::RunMinutes>> read(const history::DaemonRun& present,
                                                const history::SeriesKey&,
                                                std::int64_t from_wall_ms,
                                                std::int64_t until_wall_ms);
  // Prunes what is older than a month or beyond the limit of bytes.
  Result<void> prune();
  // Closes the file, so that the next call reopens it; a damaged one is moved aside.
  void on_failure(const Error&);
  void move_aside(const std::string& why);

  std::string path_;
  std::int64_t max_bytes_;
  std::optional<HistoryTables> tables_;
  std::int64_t pruned_ms_ = INT64_MIN;
  RecordTable process_spans_{"stays", kMaxProcessSpans};
  RecordTable bottleneck_spans_{"spells", kMaxBottleneckSpans};
  std::string moved_note_;   // why there is another file beside it
  std::string store_error_;  // why nothing is written now
};

}  // namespace gpuyard::store
