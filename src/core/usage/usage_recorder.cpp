#include "core/usage/usage_recorder.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace gpuyard::usage {

void Tally::add(const Tally& more) {
  held += more.held;
  counted += more.counted;
  energy_mj += more.energy_mj;
  estimated_mj += more.estimated_mj;
  watched += more.watched;
  busy_ns += more.busy_ns;
  peak_bytes = std::max(peak_bytes, more.peak_bytes);
}

UsageRecorder::UsageRecorder(Loop& loop, UsageReader& reads, UsageStorage& archive)
    : loop_(loop), reads_(reads), archive_(archive) {}

void UsageRecorder::open(Found found) {
  if (is_open()) return;
  count_.open(found.held, found.simulated);
  found_ = std::move(found);
  timer_ = loop_.call_after(kKeepEvery, [this] { tick(); });
  load();
}

// Loads the kept rows. Rows are saved whole, so that none is saved before the kept ones are known.
void UsageRecorder::load() {
  std::set<std::string> leases = found_.over;
  for (const Holding& holding : found_.held) leases.insert(holding.lease);
  const auto again = [this] { retry_ = loop_.call_after(kRetry, [this] { load(); }); };
  const bool asked =
      archive_.load(found_.since, std::move(leases),
                    here_.guard([this, again](const Result<std::vector<UseRow>>& rows) {
                      if (!rows) return again();
                      count_.restore(*rows);
                      found_.held.clear();
                      found_.over.clear();
                      restored_ = true;
                      collect(count_.take_over());
                      keep();
                    }));
  if (!asked) again();
}

void UsageRecorder::stop() {
  timer_.reset();
  if (!restored_) return;
  collect(count_.take_over());
  collect(count_.take_changed());
  keeping_ = false;  // the archive does the save under way first, and this one after it
  keep();
}

void UsageRecorder::tick() {
  timer_ = loop_.call_after(kKeepEvery, [this] { tick(); });
  observe({loop_.now(), loop_.wall()});
  if (!restored_) return;
  collect(count_.take_changed());
  keep();
}

void UsageRecorder::begin(const Holding& holding) {
  if (!is_open()) return;  // open() will be told of it
  count_.begin(holding);
  read_edge();
}

void UsageRecorder::end(std::string_view lease, TimePoint at) {
  if (!is_open()) return;
  count_.end(lease, at);
  read_edge();
}

std::optional<Use> UsageRecorder::of(std::string_view lease) const {
  const bool found = found_.over.contains(std::string(lease)) ||
                     std::ranges::find(found_.held, lease, &Holding::lease) != found_.held.end();
  if (found && !restored_) return std::nullopt;
  return count_.of(lease, loop_.now());
}

void UsageRecorder::read_edge() {
  reads_.fresh(here_.guard([this](const UseReadings& readings) { observe(readings); }));
}

void UsageRecorder::observe(const UseReadings& readings) {
  count_.observe(readings);
  if (!restored_) return;
  collect(count_.take_over());
  keep();
}

void UsageRecorder::collect(std::vector<UseRow> rows) {
  for (UseRow& row : rows) {
    Key key{row.day, row.lease, row.fence, row.gpu};
    unkept_.insert_or_assign(std::move(key), std::move(row));
  }
  for (; unkept_.size() > kMostUnkept; ++lost_) unkept_.erase(unkept_.begin());
}

std::vector<UseRow> UsageRecorder::unkept() const {
  std::vector<UseRow> rows;
  rows.reserve(unkept_.size());
  for (const auto& [key, row] : unkept_) rows.push_back(row);
  return rows;
}

void UsageRecorder::keep() {
  if (keeping_ || unkept_.empty()) return;
  const auto entry = std::make_shared<UsageTransaction>();
  entry->rows = unkept();
  entry->folds = std::exchange(to_fold_, {});
  entry->growing = count_.leases();
  for (const UseRow& row : entry->rows) entry->growing.insert(row.lease);
  keeping_ = archive_.save(
      *entry, here_.guard([this, entry](const Result<void>& kept) { on_kept(*entry, kept); }));
  if (!keeping_) to_fold_ = std::move(entry->folds);
}

void UsageRecorder::on_kept(const UsageTransaction& entry, const Result<void>& kept) {
  keeping_ = false;
  if (!kept) std::ranges::copy(entry.folds, std::back_inserter(to_fold_));
  if (!kept) return;  // the archive's notes say why; the next save tries these rows again
  for (const UseRow& row : entry.rows) {
    const auto same = unkept_.find({row.day, row.lease, row.fence, row.gpu});
    if (same == unkept_.end() || same->second != row) continue;
    unkept_.erase(same);
    if (row.folds_as) to_fold_.push_back(row);
  }
  keep();
}

void UsageRecorder::ask(const UseQuestion& question, Answer answer) {
  const auto shared = std::make_shared<Answer>(std::move(answer));
  if (asking_ < kMostAsking) {
    std::vector<UseRow> rows;
    if (restored_) {
      rows = unkept();
      std::ranges::move(count_.changed(), std::back_inserter(rows));
    }
    const auto heard = [this, shared, alive = here_.watch()](Result<UsageReport> got) {
      if (!alive.expired()) --asking_;
      (*shared)(std::move(got));
    };
    ++asking_;
    if (archive_.ask(question, std::move(rows), heard)) return;
    --asking_;
  }
  loop_.post([shared] {
    (*shared)(Error{Errc::unavailable, "the disk queue is full; try again in a moment"});
  });
}

std::vector<std::string> UsageRecorder::notes() const {
  std::vector<std::string> notes = archive_.notes();
  if (lost_ > 0) {
    notes.push_back(fmt::format(
        "{} rows of lease usage were lost: they could not be written for too long", lost_));
  }
  return notes;
}

}  // namespace gpuyard::usage
