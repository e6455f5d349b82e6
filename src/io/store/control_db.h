// The state that control needs after a restart: managed settings, setting claims, and the audit
// trail. It is in state.db, and before that, where there can be one, in a journal (ControlJournal):
//
//   record(), save()     into the journal, at once, and into the batch that waits
//   flush()              commits the batch with a sync; the banks of the journal that have these
//                        records are sealed until then
//   end_flush()          clears these banks, before any callback of the batch runs
//
// Every acknowledged transaction is in the journal or in state.db, and a replay never restores an
// older state.
// After a failed commit the banks stay sealed, and their settings are in the next batch as well.
// load() commits what an earlier daemon has left, and then begins a journal of its own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/lifetime.h"
#include "base/loop.h"
#include "core/control/audit.h"
#include "core/control/managed_setting.h"
#include "io/store/control_journal.h"
#include "io/store/state_store.h"

namespace gpuyard::store {

// Thread: io.
class ControlDb final : public control::ControlStorage {
 public:
  using OnAudit = std::function<void(Result<std::vector<control::AuditEntry>>)>;

  // `loop` and `store` outlive this.
  ControlDb(Loop& loop, StateStore& store) : loop_(loop), store_(store) {}
  // Hands over the transactions that still wait to be committed.
  ~ControlDb() override { flush(); }
  ControlDb(const ControlDb&) = delete;
  ControlDb& operator=(const ControlDb&) = delete;

  // Sets the journal of the previous daemon (null: none) and the factory of a new one (null: no
  // journal). Called before load(), which commits the records of the former and then calls the
  // latter.
  using BeginJournal = std::function<std::unique_ptr<ControlJournal>()>;
  void use_journal(std::unique_ptr<ControlJournal> left_over, BeginJournal begin);
  // Commits everything, and removes the journal if that is done. `on_done` runs in any case, after
  // `timeout` at the latest, never inside the call. What is saved later goes to state.db alone.
  void close(Duration timeout, std::function<void()> on_done);

  bool load(std::function<void(Result<std::vector<control::ManagedSetting>>)> on_done) override;
  bool record(const control::ControlTransaction&, OnSaved on_saved) override;
  bool save(control::ControlTransaction, control::CommitTiming, OnSaved on_done) override;
  bool query_audit(control::AuditQuery, OnAudit on_done) override;
  std::vector<std::string> notes() const override { return store_.notes(); }

  // Limits on transactions queued for their batched write; see docs/fairness.md. Audit-only
  // transactions never take the slots reserved for settings.
  static constexpr SlotPool::Limits kQueueLimits = {
      limits::kMaxControlEntries, limits::kReservedControlEntries, limits::kControlEntriesPerUser};

 private:
  struct QueuedSave {
    control::ControlTransaction entry;
    // The newest state of its setting that a caller takes for saved. It is `entry`, or an older one
    // if a failure is to be reported for that.
    std::optional<control::ControlTransaction> promised;
    std::vector<OnSaved> on_done;
  };
  using Batch = std::vector<QueuedSave>;

  QueuedSave* find_waiting(const control::ControlTransaction&);
  bool can_enqueue(const control::ControlTransaction&);
  bool enqueue(control::ControlTransaction, OnSaved on_done, bool promised);
  bool save_alone(control::ControlTransaction, OnSaved on_done, Durability);
  bool append_to_journal(const control::ControlTransaction&);
  bool run_audit_query(control::AuditQuery, const OnAudit& on_done);
  void begin_journal();
  void flush();
  void end_flush(const Batch&, ControlJournal::Banks, const Result<void>&);
  void after_flush();
  void finish_close();

  Loop& loop_;
  StateStore& store_;
  Batch waiting_;
  SlotPool queue_limit_{kQueueLimits};  // for waiting_
  Subscription flush_timer_;
  std::unique_ptr<ControlJournal> journal_;
  std::unique_ptr<ControlJournal> left_over_;
  BeginJournal begin_journal_;
  // With a journal there is one flush at a time, because each covers the banks sealed before it.
  bool flushing_ = false;
  bool flush_again_ = false;
  // Promised states of the last flush, if it failed.
  std::vector<control::ControlTransaction> unsaved_;
  std::vector<std::function<void()>> after_flush_;
  std::function<void()> on_closed_;
  Subscription close_timer_;
  Lifetime lifetime_;
};

}  // namespace gpuyard::store
