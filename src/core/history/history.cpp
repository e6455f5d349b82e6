#include "core/history/history.h"

#include <set>
#include <utility>

#include "core/history/query.h"

namespace gpuyard::history {
namespace {

// The data with which one job writes a GPU's newest hours.
struct Page {
  DaemonRun run;
  std::int64_t from_ms = 0;
  std::vector<std::pair<SeriesKey, View<Bucket>>> series;
};

Result<void> write(const Page& page, Store& store) {
  std::vector<Minutes> minutes;
  minutes.reserve(page.series.size());
  for (const auto& [key, view] : page.series) {
    auto buckets = coarser(view.points(page.from_ms, INT64_MAX), kMinuteMs);
    if (!buckets.empty()) minutes.push_back({key, std::move(buckets)});
  }
  return store.put(page.run, minutes);
}

}  // namespace

History::History(Loop& loop, Worker& worker, std::shared_ptr<Store> store, std::string boot_id)
    : loop_(loop), worker_(worker), store_(std::move(store)), clock_(std::move(boot_id)) {
  clock_.note(loop_.now(), loop_.wall());
}

void History::on_snapshot(const Snapshot& snapshot) {
  clock_.note(snapshot.taken, snapshot.wall);
  rings_.feed(snapshot);
  put_one_that_is_due();
}

std::int64_t History::now_ms() const {
  return to_milliseconds(loop_.now().time_since_epoch()) + clock_.run().wall_offset_ms;
}

// Puts one GPU at each snapshot: sixty-four at once would be too much work for loop, worker and
// disk.
void History::put_one_that_is_due() {
  const std::int64_t now = clock_.run().last_ms;
  const auto forgotten = [&](const auto& entry) { return rings_.find(entry.first) == nullptr; };
  std::erase_if(put_ms_, forgotten);
  std::erase_if(progress_->stored_hour_ms, forgotten);
  for (const auto& [uuid, gpu] : rings_.gpus()) {
    const auto last = put_ms_.try_emplace(uuid, now).first;
    if (now - last->second < kPutEveryMs) continue;
    if (put(uuid, gpu)) last->second = now;
    return;
  }
}

bool History::put(const std::string& uuid, const Rings::Gpu& gpu) {
  // An hour is rewritten until a put of the next one has succeeded.
  const auto stored = progress_->stored_hour_ms.find(uuid);
  Page page{
      clock_.run(), stored != progress_->stored_hour_ms.end() ? stored->second : INT64_MIN, {}};
  for (const Series& series : gpu.series) {
    page.series.emplace_back(SeriesKey{uuid, json_key(row_of(series.metric())), series.element()},
                             series.tens(page.from_ms));
  }
  const std::int64_t hour_ms = span_begin(page.run.last_ms, kHourMs);
  return ask_worker(
      worker_, [page = std::move(page), store = store_] { return write(page, *store); },
      [progress = progress_, uuid, hour_ms](const Result<void>& done) {
        if (done) progress->stored_hour_ms[uuid] = hour_ms;
      });
}

void History::put_away() {
  for (const auto& [uuid, gpu] : rings_.gpus()) put(uuid, gpu);
}

std::vector<Question> History::questions_at(const std::string& uuid, const Sample& now,
                                            std::int64_t at_ms) const {
  std::set<std::pair<Metric, std::uint16_t>> wanted;
  if (const Rings::Gpu* gpu = rings_.find(uuid)) {
    for (const Series& series : gpu->series) wanted.emplace(series.metric(), series.element());
  }
  for (const Reading& reading : now.readings()) {
    if (cadence_of(reading.metric) > 0) wanted.emplace(reading.metric, reading.index);
  }
  std::vector<Question> questions;
  for (const auto& [metric, element] : wanted) {
    questions.push_back({.uuid = uuid,
                         .row = &row_of(metric),
                         .element = element,
                         .from_ms = at_ms - reach_of(cadence_of(metric)),
                         .until_ms = at_ms + 1,
                         .points = kMaxPoints});
  }
  return questions;
}

Lookup History::lookup(const Question& question) const {
  Lookup out{question, cadence_of(question.row->metric), clock_.run(), {}, {}};
  const Rings::Gpu* gpu = rings_.find(question.uuid);
  const Series* series =
      gpu != nullptr ? gpu->find(question.row->metric, question.element) : nullptr;
  if (series == nullptr) {
    out.readings_since_ms = out.tens_since_ms = out.minutes_since_ms = out.run.last_ms;
    return out;
  }
  const std::int64_t from_ms = question.from_ms - out.run.wall_offset_ms - kMinuteMs;
  const std::int64_t until_ms = question.until_ms - out.run.wall_offset_ms + kMinuteMs;
  out.readings = series->readings(from_ms, until_ms);
  out.tens = series->tens(from_ms, until_ms);
  out.readings_since_ms = series->readings_since_ms();
  out.tens_since_ms = series->tens_since_ms();
  out.minutes_since_ms = series->minutes_since_ms();
  return out;
}

void History::ask(const std::vector<Question>& questions, Render render, Done done) {
  std::vector<Lookup> lookups;
  lookups.reserve(questions.size());
  for (const Question& question : questions) lookups.push_back(lookup(question));
  const auto shared = std::make_shared<Done>(std::move(done));
  const bool posted = ask_worker(
      worker_,
      [lookups = std::move(lookups), store = store_, render = std::move(render)] {
        std::vector<Answer> answers;
        answers.reserve(lookups.size());
        for (const Lookup& one : lookups) answers.push_back(answer(one, *store));
        return render(answers);
      },
      [shared](Result<std::string> text) { (*shared)(std::move(text)); });
  if (!posted) (*shared)(Error{Errc::busy, "the history is busy; try again"});
}

}  // namespace gpuyard::history
