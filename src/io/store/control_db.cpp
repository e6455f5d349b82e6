#include "io/store/control_db.h"

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/try.h"
#include "io/store/control_tables.h"

namespace gpuyard::store {

using control::AuditEntry;
using control::ControlTransaction;
using control::ManagedSetting;

namespace {

// The managed setting whose state the transaction changes.
const ManagedSetting* setting_of(const ControlTransaction& transaction) {
  if (transaction.put) return &*transaction.put;
  return transaction.removed ? &*transaction.removed : nullptr;
}

// A setting that was written to the GPU must be recorded, so it does not count towards its user's
// quota.
const Requester& requester_of(const ControlTransaction& transaction) {
  static const Requester kDaemon = Requester::daemon();
  return setting_of(transaction) != nullptr ? kDaemon : transaction.requester;
}

// The transaction without its audit.
ControlTransaction state_of(const ControlTransaction& transaction) {
  ControlTransaction state;
  state.put = transaction.put;
  state.removed = transaction.removed;
  return state;
}

// The most often that one batch yields the core. Where the loop has the same core, a change in
// progress would wait for the whole batch; but another process may keep the core for milliseconds
// each time.
constexpr std::size_t kYieldsPerBatch = 8;

bool is_of_same_setting(const ControlTransaction& one, const ControlTransaction& other) {
  const ManagedSetting* const first = setting_of(one);
  const ManagedSetting* const second = setting_of(other);
  return first != nullptr && second != nullptr && first->gpu == second->gpu &&
         first->kind == second->kind;
}

}  // namespace

void ControlDb::use_journal(std::unique_ptr<ControlJournal> left_over, BeginJournal begin) {
  left_over_ = std::move(left_over);
  begin_journal_ = std::move(begin);
}

bool ControlDb::load(std::function<void(Result<std::vector<ManagedSetting>>)> on_done) {
  std::vector<ControlTransaction> records;
  if (left_over_) {
    if (auto read = left_over_->records()) {
      records = *std::move(read);
    } else {
      log::warning("settings that the last daemon changed may not be known: {}",
                   read.error().text());
    }
  }
  return store_.load<std::vector<ManagedSetting>>(
      [records = std::move(records)](Database& database) -> Result<std::vector<ManagedSetting>> {
        for (const ControlTransaction& one : records) {
          GPUYARD_TRY(save_once(database, one));
        }
        return load_control(database);
      },
      [this, alive = lifetime_.weak_token(),
       on_done = std::move(on_done)](Result<std::vector<ManagedSetting>> loaded) {
        if (!alive.expired() && loaded) begin_journal();
        on_done(std::move(loaded));
      });
}

// The new journal has another name before the old one is removed: a daemon that is killed in
// between finds no record that it should not.
void ControlDb::begin_journal() {
  if (const auto begin = std::exchange(begin_journal_, nullptr)) journal_ = begin();
  if (const auto left_over = std::exchange(left_over_, nullptr)) {
    left_over->clear(left_over->seal());
    left_over->remove_if_empty();
  }
}

// Checked before the journal is written: a record in it that its caller takes for refused would be
// carried out by the next daemon.
bool ControlDb::can_enqueue(const ControlTransaction& transaction) {
  return queue_limit_.can_acquire(requester_of(transaction)) ||
         find_waiting(transaction) != nullptr;
}

bool ControlDb::record(const ControlTransaction& transaction, OnSaved on_saved) {
  if (!journal_ || store_.is_failing() || !can_enqueue(transaction)) return false;
  return append_to_journal(transaction) && enqueue(transaction, std::move(on_saved), true);
}

bool ControlDb::append_to_journal(const ControlTransaction& transaction) {
  if (journal_->append(transaction)) return true;
  flush();  // frees the other bank, or gives up the journal
  return journal_ && journal_->append(transaction);
}

bool ControlDb::save(ControlTransaction transaction, control::CommitTiming when, OnSaved on_done) {
  using enum control::CommitTiming;
  if (setting_of(transaction) == nullptr && !transaction.audit) {
    loop_.post([on_done = std::move(on_done)] { on_done({}); });
    return true;
  }
  if (when != soon && !journal_) {
    return save_alone(std::move(transaction), std::move(on_done),
                      when == durable ? Durability::full : Durability::normal);
  }
  if (!can_enqueue(transaction)) return false;
  if (when == soon && journal_) {
    append_to_journal(transaction);
    // Before a change has to wait for it, and after the answer that this transaction belongs to.
    if (journal_ && journal_->is_nearly_full() && !flushing_)
      flush_timer_ = loop_.call_at(loop_.now(), [this] { flush(); });
  }
  if (!enqueue(std::move(transaction), std::move(on_done), when == soon)) return false;
  if (when != soon) flush();
  return true;
}

ControlDb::QueuedSave* ControlDb::find_waiting(const ControlTransaction& transaction) {
  const auto found = std::ranges::find_if(
      waiting_, [&](const QueuedSave& one) { return is_of_same_setting(one.entry, transaction); });
  return found == waiting_.end() ? nullptr : &*found;
}

// An older state of a setting that waits is not written any more: it counts as committed if and
// only if this one is.
bool ControlDb::enqueue(ControlTransaction transaction, OnSaved on_done, bool promised) {
  if (QueuedSave* const older = find_waiting(transaction)) {
    older->entry.put = std::exchange(transaction.put, std::nullopt);
    older->entry.removed = std::exchange(transaction.removed, std::nullopt);
    if (promised) older->promised = state_of(older->entry);
    older->on_done.push_back(std::exchange(on_done, nullptr));
    if (!transaction.audit) return true;
  }
  if (!queue_limit_.try_acquire(requester_of(transaction))) return false;
  QueuedSave& added = waiting_.emplace_back();
  added.entry = std::move(transaction);
  if (promised && setting_of(added.entry) != nullptr) added.promised = state_of(added.entry);
  if (on_done) added.on_done.push_back(std::move(on_done));
  if (!flush_timer_) flush_timer_ = loop_.call_after(kMaxCommitDelay, [this] { flush(); });
  return true;
}

// Without a journal. A commit without a sync survives a killed daemon, and a power cut takes the
// driver's setting as well. How the change ended and its line in the audit follow soon and are
// synced, and this transaction with them.
bool ControlDb::save_alone(ControlTransaction transaction, OnSaved on_done, Durability durability) {
  std::vector<OnSaved> callbacks = {std::move(on_done)};
  if (QueuedSave* const older = find_waiting(transaction)) {
    older->entry.put.reset();
    older->entry.removed.reset();
    if (!older->entry.audit)
      std::ranges::move(std::exchange(older->on_done, {}), std::back_inserter(callbacks));
  }
  const auto shared = std::make_shared<const ControlTransaction>(std::move(transaction));
  const auto report = [callbacks](const Result<void>& result) {
    for (const OnSaved& callback : callbacks) callback(result);
  };
  const bool taken = store_.run(
      Requester::daemon(), [shared](Database& database) { return save_control(database, *shared); },
      report, durability);
  if (taken) return true;
  const Error busy{Errc::busy, "the disk queue is full"};
  for (std::size_t i = 1; i < callbacks.size(); ++i) callbacks[i](busy);
  return false;
}

void ControlDb::flush() {
  if (flushing_) {
    flush_again_ = true;
    return;
  }
  flush_timer_.reset();
  for (ControlTransaction& state : std::exchange(unsaved_, {})) {
    QueuedSave* const newer = find_waiting(state);
    if (newer == nullptr) {
      waiting_.push_back({state, state, {}});
    } else if (!newer->promised) {
      newer->promised = std::move(state);
    }
  }
  if (waiting_.empty()) return;
  const auto batch = std::make_shared<const Batch>(std::exchange(waiting_, {}));
  queue_limit_ = SlotPool(kQueueLimits);
  if (journal_ && !journal_->has_name()) {
    log::warning("the journal of changes was removed; changes of GPUs wait for state.db");
    journal_.reset();
  }
  const bool journaled = journal_ != nullptr;
  const ControlJournal::Banks banks = journaled ? journal_->seal() : 0;
  flushing_ = journaled;
  const auto on_done = [this, alive = lifetime_.weak_token(), batch, banks,
                        journaled](const Result<void>& result) {
    const bool there = !alive.expired();
    if (there && journaled) end_flush(*batch, banks, result);
    for (const QueuedSave& one : *batch) {
      for (const OnSaved& callback : one.on_done) callback(result);
    }
    if (there) after_flush();
  };
  const bool taken = store_.run(
      Requester::daemon(),
      [batch](Database& database) -> Result<void> {
        const std::size_t stride = batch->size() / kYieldsPerBatch + 1;
        for (std::size_t i = 0; i < batch->size(); ++i) {
          GPUYARD_TRY(save_control(database, (*batch)[i].entry));
          if ((i + 1) % stride == 0) std::this_thread::yield();
        }
        return {};
      },
      on_done);
  if (!taken) loop_.post([on_done] { on_done(Error{Errc::busy, "the disk queue is full"}); });
}

// The banks are cleared before a caller may send a command: the next daemon would take an older
// state that is in them for the newest.
void ControlDb::end_flush(const Batch& batch, ControlJournal::Banks banks,
                          const Result<void>& result) {
  flushing_ = false;
  if (result) return journal_->clear(banks);
  for (const QueuedSave& one : batch) {
    if (one.promised) unsaved_.push_back(*one.promised);
  }
}

void ControlDb::after_flush() {
  for (const auto& callback : std::exchange(after_flush_, {})) callback();
  if (std::exchange(flush_again_, false)) flush();
  if (on_closed_ && !flushing_) finish_close();
}

void ControlDb::close(Duration timeout, std::function<void()> on_done) {
  on_closed_ = std::move(on_done);
  flush();
  close_timer_ = loop_.call_after(flushing_ ? timeout : Duration(0), [this] { finish_close(); });
}

void ControlDb::finish_close() {
  close_timer_.reset();
  // A commit that still lasts may fail: the next daemon reads the records then.
  if (journal_ && !flushing_) {
    journal_->remove_if_empty();
    journal_.reset();
  }
  if (const auto on_closed = std::exchange(on_closed_, nullptr)) on_closed();
}

bool ControlDb::query_audit(control::AuditQuery query, OnAudit on_done) {
  flush();
  if (!flush_again_) return run_audit_query(std::move(query), on_done);
  after_flush_.emplace_back([this, query = std::move(query), on_done = std::move(on_done)] {
    flush();
    if (!run_audit_query(query, on_done))
      on_done(Error{Errc::busy, "the disk queue is full; try again"});
  });
  return true;
}

bool ControlDb::run_audit_query(control::AuditQuery query, const OnAudit& on_done) {
  return store_.run_query<std::vector<AuditEntry>>(
      [query = std::move(query)](Database& database) { return load_audit(database, query); },
      on_done);
}

}  // namespace gpuyard::store
