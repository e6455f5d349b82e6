// SQLite as values with one owner and Results. Knows what a database is, not what is in it. One
// thread uses a database at a time: each belongs to one worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/try.h"

struct sqlite3;
struct sqlite3_stmt;

namespace gpuyard::store {

using Blob = std::span<const std::byte>;

// Compiled statements that are not in use, by their text: compiling one takes longer than running
// it.
class StatementCache {
 public:
  static constexpr std::size_t kMaxStatements = 64;

  StatementCache() = default;
  ~StatementCache();
  StatementCache(const StatementCache&) = delete;
  StatementCache& operator=(const StatementCache&) = delete;

  // Null: there is none of this text.
  sqlite3_stmt* acquire(std::string_view text);
  void release(sqlite3_stmt*);

 private:
  std::map<std::string, sqlite3_stmt*, std::less<>> statements_;
};

// A compiled statement, bound and stepped again and again. The value of a column lives until the
// next step() or reset(). The statement ends before its database does.
class Statement {
 public:
  // Parameters count from 1. What is bound is copied.
  Statement& bind(int parameter, std::int64_t);
  Statement& bind(int parameter, double);
  Statement& bind(int parameter, std::string_view);
  Statement& bind(int parameter, Blob);
  Statement& bind_null(int parameter);

  // True: there is a row. False: done, and reset for another run.
  Result<bool> step();
  // step() of a statement that gives no rows.
  Result<void> run();
  void reset();

  // Columns count from 0.
  bool is_null(int column) const;
  std::int64_t integer(int column) const;
  double real(int column) const;
  std::string_view text(int column) const;
  Blob blob(int column) const;
  std::string_view name(int column) const;

 private:
  friend class Database;
  struct CacheReturner {
    StatementCache* cache;
    void operator()(sqlite3_stmt* statement) const { cache->release(statement); }
  };
  Statement(sqlite3_stmt* statement, StatementCache& cache)
      : statement_(statement, CacheReturner{&cache}) {}

  std::unique_ptr<sqlite3_stmt, CacheReturner> statement_;
};

// A full commit survives a power cut, a normal one a crash of this program.
enum class Durability { normal, full };

// Errors: Errc::invalid if the file is corrupt or no database; denied if it cannot be written;
// unavailable if the disk is full or fails; busy if another program has it open.
// Thread: one worker's.
class Database {
 public:
  // Opens the database in WAL mode, and creates it if needed, readable only by this user. Other
  // programs are locked out while it is open; `readers` lets open_reader() of this program open it
  // as well.
  enum class Sharing { none, readers };
  static Result<Database> open(const std::string& path, Durability,
                               Sharing sharing = Sharing::none);
  // Opens a second, read-only connection to a database that open() holds open, for another thread.
  // Its reads do not delay commits.
  static Result<Database> open_reader(const std::string& path);

  // Sets the durability of the commits from now on; not inside a transaction. A full commit makes
  // those before it full.
  Result<void> set_durability(Durability);

  // Sets how many pages the WAL may have before a commit makes a checkpoint.
  void set_checkpoint_pages(int pages);

  // Makes closing leave the WAL as it is, because something could not be written. A WAL that the
  // disk has lost in part must not be copied over the database.
  void keep_wal_on_close();

  const std::string& path() const { return path_; }
  // Findings about the file, until the owner takes and logs them.
  void add_remark(std::string remark) { remarks_.push_back(std::move(remark)); }
  std::vector<std::string> take_remarks() { return std::exchange(remarks_, {}); }
  // Several statements without parameters or rows.
  Result<void> execute(const char* statements);
  Result<Statement> prepare(std::string_view statement);
  // The first column of the first row; 0 if there is none.
  Result<std::int64_t> query_number(std::string_view query);
  // The bytes of the pages in use.
  Result<std::int64_t> bytes_used();

  // PRAGMA user_version: the schema version. 0: a new database.
  Result<std::int64_t> schema_version();
  Result<void> set_schema_version(std::int64_t);

  // Runs work(), a Result<void>, and commits what it did; all of it is undone where either fails.
  template <class Work>
  Result<void> run_transaction(Work&& work) {
    GPUYARD_TRY(run("BEGIN IMMEDIATE"));
    Result<void> done = work();
    if (done) done = commit();
    if (!done) static_cast<void>(execute("ROLLBACK").ok());  // the first error is the one to report
    return done;
  }

 private:
  struct Closer {
    void operator()(sqlite3*) const;
  };
  Database(std::string path, sqlite3* database) : path_(std::move(path)), database_(database) {}
  static Result<Database> connect(const std::string& path, int flags, const char* vfs);
  Result<void> run(std::string_view statement);
  Result<void> commit();
  struct WalState {
    int max_pages = 0;
    int sync_error = 0;  // what SQLite said when it could not be synced
  };
  // Called by sqlite3_wal_hook(), after a commit.
  static int checkpoint(void* wal_state, sqlite3*, const char* name, int pages);
  // Makes sure that what is read is on the disk. After a sync that failed in an earlier run, the
  // WAL may hold pages that every program can read but a power cut would lose: the kernel takes
  // pages that it could not write for written. Only pages that are written again are tried again.
  // Extends the WAL to `reserved_bytes`, so that no commit does: a sync of a file that grew takes
  // twice as long.
  Result<void> rewrite_wal(std::int64_t reserved_bytes);

  std::string path_;
  std::vector<std::string> remarks_;
  std::optional<Durability> durability_;
  std::unique_ptr<WalState> wal_ = std::make_unique<WalState>();
  std::unique_ptr<sqlite3, Closer> database_;
  std::unique_ptr<StatementCache> statement_cache_ = std::make_unique<StatementCache>();
};

}  // namespace gpuyard::store
