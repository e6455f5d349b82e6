// state.db, or usage.db, as the io thread sees it: waiting work is done together, in one
// transaction and one sync of the disk (group commit). All work enters through run(), which limits
// each requester: a flood by some users does not block leases, settings or administrators.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/lifetime.h"
#include "base/limits.h"
#include "base/requester.h"
#include "base/result.h"
#include "base/slot_pool.h"
#include "base/try.h"
#include "base/worker.h"
#include "io/store/sqlite.h"
#include "io/store/sqlite_rows.h"
#include "io/store/state_db.h"

namespace gpuyard::store {

// Thread: io.
class StateStore {
 public:
  using OnDone = std::function<void(const Result<void>&)>;

  // See docs/fairness.md.
  static constexpr SlotPool::Limits kQueueLimits = {
      limits::kMaxStateTasks, limits::kReservedStateTasks, limits::kStateTasksPerUser};

  // `worker` writes, and `read_worker` runs queries; both outlive this.
  StateStore(Worker& worker, Worker& read_worker, std::string path, StateDb::Migrations,
             StateDb::DirectoryCheck directory_check = &check_local);
  // Hands over what still waits; the worker does it before it ends.
  ~StateStore();
  StateStore(const StateStore&) = delete;
  StateStore& operator=(const StateStore&) = delete;

  // `work` uses only what it owns; an empty one writes nothing. on_done() gets the result of the
  // transaction, on the loop. Returns false, and does nothing, if the queue or this requester's
  // quota is full. Work runs in order. With `normal`, on_done() may run before the work would
  // survive a power cut; the next full commit makes it durable.
  bool run(const Requester&, StateDb::Work work, OnDone on_done, Durability = Durability::full);
  // Whether run() would accept work of this requester now.
  bool can_accept(const Requester& requester) const {
    return waiting_->queue_limit.can_acquire(requester);
  }

  // Reads in order with the writes, on their thread, and returns query(database). For data that the
  // daemon reads once, at its start.
  template <class Answer>
  bool load(std::function<Result<Answer>(Database&)> query,
            std::function<void(Result<Answer>)> on_done) {
    const auto result = std::make_shared<Answer>();
    return run(
        Requester::daemon(),
        [result, query = std::move(query)](Database& database) -> Result<void> {
          *result = GPUYARD_TRY(query(database));
          return {};
        },
        [result, on_done = std::move(on_done)](const Result<void>& done) {
          if (!done) return on_done(done.error());
          on_done(std::move(*result));
        });
  }

  // Runs a client's query on the read thread. It sees all work passed to run() before.
  template <class Answer>
  bool run_query(std::function<Result<Answer>(Database&)> query,
                 std::function<void(Result<Answer>)> on_done) {
    return run(Requester::daemon(), nullptr,
               [this, query = std::move(query), on_done = std::move(on_done)](const Result<void>&) {
                 query_reader(query, on_done);
               });
  }

  // Whether the last transaction failed.
  bool is_failing() const { return store_error_.has_value(); }
  // Sentences that say what is wrong with the file now, and what was.
  std::vector<std::string> notes() const;

 private:
  struct CommitGroup {
    std::vector<StateDb::Work> works;
    std::vector<OnDone> done;
    SlotPool queue_limit{kQueueLimits};
    bool writes = false;
    Durability durability = Durability::normal;  // the highest that one of them asks for
  };
  struct CommitResult {
    Result<void> result;
    std::vector<std::string> corruption_notes;
  };

  // A failed transaction does not prevent reads: the reader reports its own errors.
  template <class Answer>
  void query_reader(const std::function<Result<Answer>(Database&)>& query,
                    const std::function<void(Result<Answer>)>& on_done) {
    const bool posted = run_on_worker(
        read_worker_, [reader = database_->reader(), query] { return reader->run_query(query); },
        lifetime_.guard([this, on_done](Result<Answer> result) {
          if (!result && result.error().code == Errc::invalid) check_integrity();
          on_done(std::move(result));
        }));
    if (!posted) on_done(Error{Errc::busy, "the disk queue is full; try again"});
  }
  // Checks the file after a reader found it corrupt; the writer sets a corrupt one aside.
  void check_integrity();
  void start_commit();
  void on_commit(const CommitGroup&, const CommitResult&);
  void update_store_error(const std::optional<Error>&);

  Worker& worker_;
  Worker& read_worker_;
  std::string path_;
  std::shared_ptr<StateDb> database_;  // used by the worker's thread only
  std::shared_ptr<CommitGroup> waiting_ = std::make_shared<CommitGroup>();
  bool committing_ = false;
  std::optional<Error> store_error_;
  std::vector<std::string> corruption_notes_;
  Lifetime lifetime_;
};

}  // namespace gpuyard::store
