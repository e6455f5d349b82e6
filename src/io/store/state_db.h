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

#include "base/mutex.h"
#include "base/result.h"
#include "base/try.h"
#include "io/store/local_disk.h"
#include "io/store/sqlite.h"

namespace gpuyard::store {

// Errors: Errc::invalid if the file is corrupt.
Result<void> check_integrity(Database&);

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
    GPUYARD_TRY(open());
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

// Thread: worker.
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

}  // namespace gpuyard::store
