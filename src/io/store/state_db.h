// A file that must survive a power cut: state.db or usage.db. Its one owner, on a worker's thread,
// opens it, migrates it to the newest schema version, and sets a corrupt one aside. Rooms add
// tables by a migration in migrations.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/mutex.h"
#include "base/requester.h"
#include "base/result.h"
#include "base/slot_pool.h"
#include "base/worker.h"
#include "io/store/sqlite.h"

namespace gpuyard::store {

// Whether a directory is on a disk of this machine. On a network file system other machines write
// to the same file, and locks and syncs do not do what they promise: a grant could be lost or given
// twice.

// The name of a network file system, for people; nothing for a local one. `magic` is statfs's
// f_type; `type` is what the mount says, and decides where many share one magic (FUSE).
std::optional<std::string_view> network_file_system(std::uint32_t magic, std::string_view type);

// The type of the mount of a device, "fuse.sshfs", in the text of /proc/self/mountinfo; "" if there
// is none.
std::string_view mount_type(std::string_view mountinfo, unsigned major, unsigned minor);

// Errc::denied if the directory is on a network file system; the message says what to do. It is no
// error if that cannot be found out.
Result<void> check_local(const std::string& directory);

// Stands between the name of a corrupt file and the time when it was set aside.
inline constexpr std::string_view kCorruptSuffix = ".corrupt-";

// The second, read-only connection to the file, so that a long query delays no commit. Any thread
// may call it; the mutex is held during a query.
class StateReader {
 public:
  explicit StateReader(std::string path) : path_(std::move(path)) {}
  StateReader(const StateReader&) = delete;
  StateReader& operator=(const StateReader&) = delete;

  // Errc::unavailable until the writer has checked the file.
  template <class Answer>
  Result<Answer> run_query(const std::function<Result<Answer>(Database&)>& query) {
    const MutexLock lock(mutex_);
    if (auto ready = open(); !ready) return std::move(ready).error();
    Result<Answer> result = query(*database_);
    if (!result) database_.reset();
    return result;
  }

  // Called once the file at the path is checked and has the newest schema version.
  void allow();
  // Closes the connection. The next open reads the WAL again.
  void close();
  // Closes the connection until the next allow(), because the file is being replaced.
  void forbid();
  // The same, but does nothing while a query runs.
  void try_forbid();

 private:
  Result<void> open() REQUIRES(mutex_);

  const std::string path_;
  Mutex mutex_;
  bool allowed_ GUARDED_BY(mutex_) = false;
  std::optional<Database> database_ GUARDED_BY(mutex_);
};

class StateDb {
 public:
  // Runs inside a transaction. An empty function only waits for earlier work.
  using Work = std::function<Result<void>(Database&)>;

  // The migrations that lead to the tables in it; they outlive every StateDb.
  using Migrations = std::span<const char* const>;

  // The most corrupt files that are kept: a disk that corrupts one after the other must not fill
  // with them.
  static constexpr std::size_t kMaxCorruptFiles = 4;

  // Checks whether a directory is a place for the file.
  using DirectoryCheck = std::function<Result<void>(const std::string& directory)>;

  StateDb(std::string path, Migrations migrations, DirectoryCheck directory_check = &check_local)
      : path_(std::move(path)),
        migrations_(migrations),
        directory_check_(std::move(directory_check)),
        reader_(std::make_shared<StateReader>(path_)) {}
  ~StateDb() { reader_->try_forbid(); }
  StateDb(const StateDb&) = delete;
  StateDb& operator=(const StateDb&) = delete;

  // Runs all works in one transaction. The first error undoes them all and is returned. The
  // database is then closed and reopened at the next call, because its content is no longer
  // certain. Without any work, the file is opened and nothing is written.
  Result<void> commit(std::span<const Work> works, Durability = Durability::full);

  // The connection that reads committed data.
  const std::shared_ptr<StateReader>& reader() const { return reader_; }

  // Messages about corrupt files and unreadable rows that were set aside.
  const std::vector<std::string>& corruption_notes() const { return corruption_notes_; }

 private:
  Result<void> open();
  Result<void> open_or_replace();
  void add_remarks(const std::vector<std::string>& remarks);
  Result<void> set_aside_corrupt(const Error& why);

  std::string path_;
  Migrations migrations_;
  DirectoryCheck directory_check_;
  std::shared_ptr<StateReader> reader_;
  std::optional<Database> database_;
  std::vector<std::string> corruption_notes_;
  std::size_t corrupt_files_ = 0;
};

// state.db, or usage.db, as the io thread sees it: waiting work is done together, in one
// transaction and one sync of the disk (group commit). All work enters through run(), which limits
// each requester: a flood by some users does not block leases, settings or administrators.

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
          auto got = query(database);
          if (!got) return std::move(got).error();
          *result = *std::move(got);
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
