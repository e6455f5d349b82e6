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

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace gpuyard::store {

using Blob = std::span<const std::byte>;

// Compiled statements that nobody uses at present, by their text: to compile one takes longer than
// to run it.
class SpareStatements {
 public:
  static constexpr std::size_t kMost = 64;

  SpareStatements() = default;
  ~SpareStatements();
  SpareStatements(const SpareStatements&) = delete;
  SpareStatements& operator=(const SpareStatements&) = delete;

  // Null: there is none of this text.
  sqlite3_stmt* take(std::string_view text);
  void keep(sqlite3_stmt*);

 private:
  std::map<std::string, sqlite3_stmt*, std::less<>> statements_;
};

// A compiled statement, bound and stepped again and again. What a column gives lives until the next
// step() or reset(). Ends before its database does.
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

 private:
  friend class Database;
  struct PutBack {
    SpareStatements* spare;
    void operator()(sqlite3_stmt* statement) const { spare->keep(statement); }
  };
  Statement(sqlite3_stmt* statement, SpareStatements& spare)
      : statement_(statement, PutBack{&spare}) {}

  std::unique_ptr<sqlite3_stmt, PutBack> statement_;
};

// How much a commit outlives: full is a power cut, normal is a crash of this program.
enum class Durability { normal, full };

// Errors: Errc::invalid, what is there is corrupt or no database; denied, it cannot be written;
// unavailable, the disk is full or fails; busy, another program is in it.
class Database {
 public:
  // Creates it if need be, for this user alone, in WAL mode, and keeps others out while it is open.
  static Result<Database> open(const std::string& path, Durability);

  // Of the commits from now on; not inside a transaction. One of full makes those before it full.
  Result<void> set_durability(Durability);

  // How many pages the journal may have before a commit copies them into the database.
  void copy_journal_after(int pages);

  // Something could not be written: its end leaves the journal as it is. What the disk has lost of
  // it must not be copied over what it has.
  void distrust();

  const std::string& path() const { return path_; }
  // Several statements without parameters or rows.
  Result<void> execute(const char* statements);
  Result<Statement> prepare(std::string_view statement);
  std::int64_t rows_changed() const;
  // The first column of the first row; 0 if there is none.
  Result<std::int64_t> number(std::string_view query);
  // Of pages that something is in.
  Result<std::int64_t> bytes_used();

  // PRAGMA user_version: which layout this is. 0: a new database.
  Result<std::int64_t> layout();
  Result<void> set_layout(std::int64_t);

  // Runs work(), a Result<void>, and commits what it did; all of it is undone where either fails.
  template <class Work>
  Result<void> transaction(Work&& work) {
    if (auto begun = run("BEGIN IMMEDIATE"); !begun) return begun;
    Result<void> done = work();
    if (done) done = commit();
    if (!done) static_cast<void>(execute("ROLLBACK").ok());  // the first error is the one to tell
    return done;
  }

 private:
  struct Close {
    void operator()(sqlite3*) const;
  };
  Database(std::string path, sqlite3* database) : path_(std::move(path)), database_(database) {}
  Result<void> run(std::string_view statement);
  Result<void> commit();
  struct Journal {
    int most_pages = 0;
    int failed = 0;  // what SQLite said when it could not be synced
  };
  // Of sqlite3_wal_hook(), after a commit.
  static int copy_journal(void* journal, sqlite3*, const char* name, int pages);
  // Makes certain what is read. A sync that failed in an earlier life left in the journal what is
  // there for every program and yet lost with the power: the kernel takes pages that it could not
  // write for written. Only what is written once more is tried once more.
  Result<void> write_journal_again();

  std::string path_;
  std::optional<Durability> durability_;
  std::unique_ptr<Journal> journal_ = std::make_unique<Journal>();
  std::unique_ptr<sqlite3, Close> database_;
  std::unique_ptr<SpareStatements> spare_ = std::make_unique<SpareStatements>();
};

}  // namespace gpuyard::store
