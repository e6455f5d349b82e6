#include "core/usage/usage_recorder.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace gpuyard::usage {

void UsageCounters::add(const UsageCounters& more) {
  held += more.held;
  counted += more.counted;
  energy_mj += more.energy_mj;
  estimated_mj += more.estimated_mj;
  watched += more.watched;
  busy_ns += more.busy_ns;
  peak_bytes = std::max(peak_bytes, more.peak_bytes);
}

UsageRecorder::UsageRecorder(Loop& loop, UsageReader& reader, UsageStorage& storage)
    : loop_(loop), reader_(reader), storage_(storage) {}

void UsageRecorder::open(InitialLeases found) {
  if (is_open()) return;
  accumulator_.open(found.held, found.simulated);
  initial_leases_ = std::move(found);
  timer_ = loop_.call_after(kSaveInterval, [this] { tick(); });
  load();
}

// Loads the stored rows. Rows are saved whole, so that none is saved before the stored ones are
// known.
void UsageRecorder::load() {
  std::set<std::string> leases = initial_leases_.ended;
  for (const LeaseGrant& grant : initial_leases_.held) leases.insert(grant.lease);
  const auto retry = [this] {
    load_timer_ = loop_.call_after(kLoadRetryDelay, [this] { load(); });
  };
  const bool submitted =
      storage_.load(initial_leases_.since, std::move(leases),
                    lifetime_.guard([this, retry](const Result<std::vector<UsageRow>>& rows) {
                      if (!rows) return retry();
                      accumulator_.restore(*rows);
                      initial_leases_.held.clear();
                      initial_leases_.ended.clear();
                      restored_ = true;
                      add_unsaved(accumulator_.take_ended_rows());
                      save();
                    }));
  if (!submitted) retry();
}

void UsageRecorder::stop() {
  timer_.reset();
  if (!restored_) return;
  add_unsaved(accumulator_.take_ended_rows());
  add_unsaved(accumulator_.take_changed_rows());
  saving_ = false;  // the storage does the save under way first, and this one after it
  save();
}

void UsageRecorder::tick() {
  timer_ = loop_.call_after(kSaveInterval, [this] { tick(); });
  record({loop_.now(), loop_.wall()});
  if (!restored_) return;
  add_unsaved(accumulator_.take_changed_rows());
  save();
}

void UsageRecorder::begin(const LeaseGrant& grant) {
  if (!is_open()) return;  // open() will get it
  accumulator_.begin(grant);
  request_reading(grant.gpus);
}

void UsageRecorder::end(const LeaseGrant& grant, TimePoint at) {
  if (!is_open()) return;
  accumulator_.end(grant.lease, at);
  request_reading(grant.gpus);
}

std::optional<LeaseUsage> UsageRecorder::usage_of(std::string_view lease) const {
  const bool found = initial_leases_.ended.contains(std::string(lease)) ||
                     std::ranges::find(initial_leases_.held, lease, &LeaseGrant::lease) !=
                         initial_leases_.held.end();
  if (found && !restored_) return std::nullopt;
  return accumulator_.usage_of(lease, loop_.now());
}

void UsageRecorder::request_reading(const std::vector<DeviceId>& gpus) {
  reader_.read_fresh(gpus,
                     lifetime_.guard([this](const UsageSnapshot& readings) { record(readings); }));
}

void UsageRecorder::record(const UsageSnapshot& readings) {
  accumulator_.record(readings);
  if (!restored_) return;
  add_unsaved(accumulator_.take_ended_rows());
  save();
}

void UsageRecorder::add_unsaved(std::vector<UsageRow> rows) {
  for (UsageRow& row : rows) {
    Key key{row.day, row.lease, row.fence, row.gpu};
    unsaved_rows_.insert_or_assign(std::move(key), std::move(row));
  }
  for (; unsaved_rows_.size() > kMaxUnsavedRows; ++lost_rows_)
    unsaved_rows_.erase(unsaved_rows_.begin());
}

std::vector<UsageRow> UsageRecorder::unsaved_rows() const {
  std::vector<UsageRow> rows;
  rows.reserve(unsaved_rows_.size());
  for (const auto& [key, row] : unsaved_rows_) rows.push_back(row);
  return rows;
}

void UsageRecorder::save() {
  if (saving_ || unsaved_rows_.empty()) return;
  const auto transaction = std::make_shared<UsageTransaction>();
  transaction->rows = unsaved_rows();
  transaction->rows_to_compact = std::exchange(rows_to_compact_, {});
  transaction->growing_leases = accumulator_.leases();
  for (const UsageRow& row : transaction->rows) transaction->growing_leases.insert(row.lease);
  saving_ =
      storage_.save(*transaction, lifetime_.guard([this, transaction](const Result<void>& result) {
        on_saved(*transaction, result);
      }));
  if (!saving_) rows_to_compact_ = std::move(transaction->rows_to_compact);
}

void UsageRecorder::on_saved(const UsageTransaction& transaction, const Result<void>& result) {
  saving_ = false;
  if (!result) std::ranges::copy(transaction.rows_to_compact, std::back_inserter(rows_to_compact_));
  if (!result) return;  // the storage's notes say why; the next save tries these rows again
  for (const UsageRow& row : transaction.rows) {
    const auto same = unsaved_rows_.find({row.day, row.lease, row.fence, row.gpu});
    if (same == unsaved_rows_.end() || same->second != row) continue;
    unsaved_rows_.erase(same);
    if (row.compacted_leases) rows_to_compact_.push_back(row);
  }
  save();
}

void UsageRecorder::query(const UsageQuery& query, OnReport on_report) {
  const auto shared = std::make_shared<OnReport>(std::move(on_report));
  if (running_queries_ < kMaxConcurrentQueries) {
    std::vector<UsageRow> rows;
    if (restored_) {
      rows = unsaved_rows();
      std::ranges::move(accumulator_.changed_rows(), std::back_inserter(rows));
    }
    const auto on_result = [this, shared,
                            alive = lifetime_.weak_token()](Result<UsageReport> report) {
      if (!alive.expired()) --running_queries_;
      (*shared)(std::move(report));
    };
    ++running_queries_;
    if (storage_.query(query, std::move(rows), on_result)) return;
    --running_queries_;
  }
  loop_.post([shared] {
    (*shared)(Error{Errc::unavailable, "the disk queue is full; try again in a moment"});
  });
}

std::vector<std::string> UsageRecorder::notes() const {
  std::vector<std::string> notes = storage_.notes();
  if (lost_rows_ > 0) {
    notes.push_back(fmt::format(
        "{} rows of lease usage were lost: they could not be written for too long", lost_rows_));
  }
  return notes;
}

}  // namespace gpuyard::usage
