#include "core/history/history.h"

#include <set>
#include <utility>

#include "core/history/query.h"

namespace gpuyard::history {
namespace {

// The data with which one task writes a GPU's newest hours.
struct MinuteBatch {
  DaemonRun run;
  std::int64_t from_ms = 0;
  std::vector<std::pair<SeriesKey, View<Bucket>>> series;
};

Result<void> write(const MinuteBatch& batch, MinuteStorage& storage) {
  std::vector<SeriesMinutes> minutes;
  minutes.reserve(batch.series.size());
  for (const auto& [key, view] : batch.series) {
    auto buckets = downsample(view.points(batch.from_ms, INT64_MAX), kMinuteMs);
    if (!buckets.empty()) minutes.push_back({key, std::move(buckets)});
  }
  return storage.put(batch.run, minutes);
}

}  // namespace

History::History(Loop& loop, Worker& worker, std::shared_ptr<MinuteStorage> storage,
                 std::string boot_id)
    : loop_(loop), worker_(worker), storage_(std::move(storage)), clock_(std::move(boot_id)) {
  clock_.update(loop_.now(), loop_.wall());
}

void History::on_snapshot(const Snapshot& snapshot) {
  clock_.update(snapshot.taken, snapshot.wall);
  rings_.append(snapshot);
  flush_next_due();
}

std::int64_t History::now_ms() const {
  return to_milliseconds(loop_.now().time_since_epoch()) + clock_.run().wall_offset_ms;
}

// Puts one GPU at each snapshot: sixty-four at once would be too much work for loop, worker and
// disk.
void History::flush_next_due() {
  const std::int64_t now = clock_.run().last_ms;
  const auto is_evicted = [&](const auto& entry) { return rings_.find(entry.first) == nullptr; };
  std::erase_if(saved_at_ms_, is_evicted);
  std::erase_if(*stored_hour_ms_, is_evicted);
  for (const auto& [uuid, gpu] : rings_.gpus()) {
    const auto last = saved_at_ms_.try_emplace(uuid, now).first;
    if (now - last->second < kSaveIntervalMs) continue;
    if (save(uuid, gpu)) last->second = now;
    return;
  }
}

bool History::save(const std::string& uuid, const Rings::Gpu& gpu) {
  // An hour is rewritten until a put of the next one has succeeded.
  const auto stored = stored_hour_ms_->find(uuid);
  MinuteBatch batch{
      clock_.run(), stored != stored_hour_ms_->end() ? stored->second : INT64_MIN, {}};
  for (const Series& series : gpu.series) {
    batch.series.emplace_back(SeriesKey{uuid, json_key(row_of(series.metric())), series.element()},
                              series.ten_second_buckets(batch.from_ms));
  }
  const std::int64_t hour_ms = span_begin(batch.run.last_ms, kHourMs);
  return run_on_worker(
      worker_, [batch = std::move(batch), storage = storage_] { return write(batch, *storage); },
      [stored_hours = stored_hour_ms_, uuid, hour_ms](const Result<void>& result) {
        if (result) (*stored_hours)[uuid] = hour_ms;
      });
}

void History::flush() {
  for (const auto& [uuid, gpu] : rings_.gpus()) save(uuid, gpu);
}

std::vector<Query> History::queries_at(const std::string& uuid, const Sample& now,
                                       std::int64_t at_ms) const {
  std::set<std::pair<Metric, std::uint16_t>> wanted;
  if (const Rings::Gpu* gpu = rings_.find(uuid)) {
    for (const Series& series : gpu->series) wanted.emplace(series.metric(), series.element());
  }
  for (const Reading& reading : now.readings()) {
    if (cadence_of(reading.metric) > 0) wanted.emplace(reading.metric, reading.index);
  }
  std::vector<Query> queries;
  for (const auto& [metric, element] : wanted) {
    queries.push_back({.uuid = uuid,
                       .row = &row_of(metric),
                       .element = element,
                       .from_ms = at_ms - max_age_of(cadence_of(metric)),
                       .until_ms = at_ms + 1,
                       .points = kMaxPoints});
  }
  return queries;
}

PreparedQuery History::prepare_query(const Query& query) const {
  PreparedQuery out{query, cadence_of(query.row->metric), clock_.run(), {}, {}};
  const Rings::Gpu* gpu = rings_.find(query.uuid);
  const Series* series = gpu != nullptr ? gpu->find(query.row->metric, query.element) : nullptr;
  if (series == nullptr) {
    out.readings_since_ms = out.ten_seconds_since_ms = out.minutes_since_ms = out.run.last_ms;
    return out;
  }
  const std::int64_t from_ms = query.from_ms - out.run.wall_offset_ms - kMinuteMs;
  const std::int64_t until_ms = query.until_ms - out.run.wall_offset_ms + kMinuteMs;
  out.readings = series->readings(from_ms, until_ms);
  out.ten_second_buckets = series->ten_second_buckets(from_ms, until_ms);
  out.readings_since_ms = series->readings_since_ms();
  out.ten_seconds_since_ms = series->ten_seconds_since_ms();
  out.minutes_since_ms = series->minutes_since_ms();
  return out;
}

void History::query(const std::vector<Query>& queries, Render render, OnDone on_done) {
  std::vector<PreparedQuery> prepared_queries;
  prepared_queries.reserve(queries.size());
  for (const Query& query : queries) prepared_queries.push_back(prepare_query(query));
  const auto shared = std::make_shared<OnDone>(std::move(on_done));
  const bool posted = run_on_worker(
      worker_,
      [prepared_queries = std::move(prepared_queries), storage = storage_,
       render = std::move(render)] {
        std::vector<QueryResult> results;
        results.reserve(prepared_queries.size());
        for (const PreparedQuery& one : prepared_queries)
          results.push_back(execute_query(one, *storage));
        return render(results);
      },
      [shared](Result<std::string> text) { (*shared)(std::move(text)); });
  if (!posted) (*shared)(Error{Errc::busy, "the history is busy; try again"});
}

}  // namespace gpuyard::history
