#include "io/store/sqlite.h"

#include <fcntl.h>
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "base/try.h"
#include "base/unique_fd.h"
#include "io/store/sqlite_rows.h"

namespace gpuyard::store {
namespace {

Errc errc_of(int code) {
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return Errc::invalid;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_CANTOPEN:
      return Errc::denied;
    case SQLITE_FULL:
    case SQLITE_IOERR:
      return Errc::unavailable;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Errc::busy;
    default:
      return Errc::internal;
  }
}

Error error_of(sqlite3* database, std::string_view doing) {
  const int code = sqlite3_extended_errcode(database);
  return {errc_of(code), fmt::format("{}: {}", doing, sqlite3_errmsg(database))};
}

Error error_in(sqlite3* database) {
  const char* const file = sqlite3_db_filename(database, "main");
  return error_of(database, file != nullptr ? file : "database");
}

// The wait for another program that has the database open. That is a mistake that ends soon or
// never, and tasks wait behind this one.
constexpr int kBusyTimeoutMs = 500;

constexpr int kCheckpointPages = 1000;  // SQLite's own default

// The size of a WAL that is checkpointed at kCheckpointPages, with the transaction that got there.
constexpr sqlite3_int64 kFullWalBytes = sqlite3_int64{kCheckpointPages + 32} * (4096 + 24);

// The SQLite VFS with which only connections of this process share a database; the WAL index stays
// in memory. Null if the default VFS was replaced, as in some tests: a database then has one
// connection.
const char* exclusive_vfs() {
  const sqlite3_vfs* const default_vfs = sqlite3_vfs_find(nullptr);
  return default_vfs != nullptr && std::string_view(default_vfs->zName) == "unix" ? "unix-excl"
                                                                                  : nullptr;
}

}  // namespace

StatementCache::~StatementCache() {
  for (const auto& [text, statement] : statements_) sqlite3_finalize(statement);
}

sqlite3_stmt* StatementCache::acquire(std::string_view text) {
  const auto found = statements_.find(text);
  return found == statements_.end() ? nullptr : statements_.extract(found).mapped();
}

void StatementCache::release(sqlite3_stmt* statement) {
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  const bool can_cache = statements_.size() < kMaxStatements &&
                         statements_.emplace(sqlite3_sql(statement), statement).second;
  if (!can_cache) sqlite3_finalize(statement);
}

Statement& Statement::bind(int parameter, std::int64_t value) {
  sqlite3_bind_int64(statement_.get(), parameter, value);
  return *this;
}

Statement& Statement::bind(int parameter, double value) {
  sqlite3_bind_double(statement_.get(), parameter, value);
  return *this;
}

Statement& Statement::bind(int parameter, std::string_view value) {
  sqlite3_bind_text64(statement_.get(), parameter, value.data(), value.size(), SQLITE_TRANSIENT,
                      SQLITE_UTF8);
  return *this;
}

Statement& Statement::bind(int parameter, Blob value) {
  sqlite3_bind_blob64(statement_.get(), parameter, value.data(), value.size(), SQLITE_TRANSIENT);
  return *this;
}

Statement& Statement::bind_null(int parameter) {
  sqlite3_bind_null(statement_.get(), parameter);
  return *this;
}

Result<bool> Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  Result<bool> done = false;
  if (code != SQLITE_DONE) done = error_in(sqlite3_db_handle(statement_.get()));
  reset();
  return done;
}

Result<void> Statement::run() {
  GPUYARD_TRY(step());
  reset();
  return {};
}

void Statement::reset() {
  sqlite3_reset(statement_.get());
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

double Statement::real(int column) const {
  return sqlite3_column_double(statement_.get(), column);
}

std::string_view Statement::text(int column) const {
  const auto* const text = sqlite3_column_text(statement_.get(), column);
  if (text == nullptr) return {};
  return {reinterpret_cast<const char*>(text),
          static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

Blob Statement::blob(int column) const {
  const auto* const bytes =
      static_cast<const std::byte*>(sqlite3_column_blob(statement_.get(), column));
  if (bytes == nullptr) return {};
  return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

std::string_view Statement::name(int column) const {
  const char* const name = sqlite3_column_name(statement_.get(), column);
  return name == nullptr ? std::string_view() : name;
}

void Database::Closer::operator()(sqlite3* database) const {
  sqlite3_close_v2(database);
}

Result<Database> Database::connect(const std::string& path, int flags, const char* vfs) {
  sqlite3* raw = nullptr;
  const int opened = sqlite3_open_v2(path.c_str(), &raw,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW | flags, vfs);
  Database database(path, raw);
  if (opened != SQLITE_OK) return error_of(raw, "opening " + path);
  sqlite3_extended_result_codes(raw, 1);
  sqlite3_busy_timeout(raw, kBusyTimeoutMs);
  database.keep_wal_on_close();
  return database;
}

Result<Database> Database::open(const std::string& path, Durability durability, Sharing sharing) {
  // SQLite itself would use the umask, which is process-wide. Only a new file is opened here:
  // closing a file that is open elsewhere in this process would drop its POSIX locks.
  UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)).reset();
  const char* const shared = sharing == Sharing::readers ? exclusive_vfs() : nullptr;
  auto opened = connect(path, SQLITE_OPEN_CREATE, shared);
  if (!opened) return opened;
  Database& database = *opened;
  // Exclusive by its locking mode or by its VFS: the WAL index stays in memory instead of in a file
  // that other processes map.
  auto set = shared != nullptr ? Result<void>() : database.execute("PRAGMA locking_mode=EXCLUSIVE");
  if (set) set = database.execute("PRAGMA journal_mode=WAL");
  if (!set) return std::move(set).error();
  database.set_checkpoint_pages(kCheckpointPages);
  if (set = database.set_durability(durability); !set) return std::move(set).error();
  GPUYARD_TRY(database.rewrite_wal(shared != nullptr ? kFullWalBytes : 0));
  sqlite3_db_config(database.database_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
  return opened;
}

// Leaves the checkpoint to the writer, even if this connection is closed last.
Result<Database> Database::open_reader(const std::string& path) {
  auto opened = connect(path, 0, exclusive_vfs());
  if (!opened) return opened;
  GPUYARD_TRY(opened->execute("PRAGMA query_only=1"));
  return opened;
}

Result<void> Database::set_durability(Durability durability) {
  if (durability_ == durability) return {};
  const bool full = durability == Durability::full;
  auto set = execute(full ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
  if (set) durability_ = durability;
  return set;
}

Result<void> Database::execute(const char* statements) {
  if (sqlite3_exec(database_.get(), statements, nullptr, nullptr, nullptr) != SQLITE_OK) {
    return error_in(database_.get());
  }
  return {};
}

void Database::set_checkpoint_pages(int pages) {
  // SQLite would do the same by itself, but says nothing when the WAL cannot be synced. The WAL may
  // then lose what commits without a sync left there, and everything behind it.
  wal_->max_pages = pages;
  sqlite3_wal_hook(database_.get(), &checkpoint, wal_.get());
}

int Database::checkpoint(void* wal_state, sqlite3* database, const char* name, int pages) {
  auto& [max_pages, failed] = *static_cast<WalState*>(wal_state);
  if (pages < max_pages) return SQLITE_OK;
  const int code =
      sqlite3_wal_checkpoint_v2(database, name, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  // Anything else leaves the WAL as it was, to be copied after the next commit.
  failed = code == SQLITE_IOERR_FSYNC ? code : SQLITE_OK;
  return failed;
}

Result<void> Database::commit() {
  wal_->sync_error = SQLITE_OK;  // left by statements outside a transaction
  auto done = run("COMMIT");
  const int failed = std::exchange(wal_->sync_error, SQLITE_OK);
  if (failed == SQLITE_OK) return done;
  return Error{errc_of(failed), fmt::format("{}-wal: {}", path_, sqlite3_errstr(failed))};
}

void Database::keep_wal_on_close() {
  sqlite3_db_config(database_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
}

// Writes in place: writing the same bytes again spoils nothing, wherever it is cut off. SQLite
// takes zeros for the end of the WAL.
Result<void> Database::rewrite_wal(std::int64_t reserved_bytes) {
  // Opens the WAL.
  GPUYARD_TRY(this->schema_version());
  sqlite3_file* file = nullptr;
  sqlite3_file_control(database_.get(), "main", SQLITE_FCNTL_JOURNAL_POINTER, &file);
  if (file == nullptr || file->pMethods == nullptr) return {};
  sqlite3_int64 size = 0;
  int code = file->pMethods->xFileSize(file, &size);
  std::array<char, 65536> chunk;
  sqlite3_int64 at = 0;
  while (code == SQLITE_OK && at < size) {
    const int amount = static_cast<int>(std::min<sqlite3_int64>(size - at, chunk.size()));
    code = file->pMethods->xRead(file, chunk.data(), amount, at);
    if (code == SQLITE_OK) code = file->pMethods->xWrite(file, chunk.data(), amount, at);
    at += amount;
  }
  chunk.fill(0);
  while (code == SQLITE_OK && at < reserved_bytes) {
    const auto amount = std::min<sqlite3_int64>(reserved_bytes - at, chunk.size());
    if (file->pMethods->xWrite(file, chunk.data(), static_cast<int>(amount), at) != SQLITE_OK) {
      code = file->pMethods->xTruncate(file, size);  // the disk is full: leave the rest of it free
      break;
    }
    at += amount;
  }
  if (code == SQLITE_OK && at > 0) code = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
  if (code == SQLITE_OK) return {};
  return Error{errc_of(code), fmt::format("writing {}-wal again: {}", path_, sqlite3_errstr(code))};
}

Result<void> Database::run(std::string_view statement) {
  auto compiled = prepare(statement);
  return compiled ? compiled->run() : Result<void>(std::move(compiled).error());
}

Result<Statement> Database::prepare(std::string_view statement) {
  if (sqlite3_stmt* const cached = statement_cache_->acquire(statement))
    return Statement(cached, *statement_cache_);
  sqlite3_stmt* raw = nullptr;
  if (sqlite3_prepare_v2(database_.get(), statement.data(), static_cast<int>(statement.size()),
                         &raw, nullptr) != SQLITE_OK) {
    return error_in(database_.get());
  }
  return Statement(raw, *statement_cache_);
}

Result<std::int64_t> Database::query_number(std::string_view query) {
  auto statement = GPUYARD_TRY(prepare(query));
  const auto row = statement.step();
  if (!row) return row.error();
  return *row ? statement.integer(0) : 0;
}

Result<std::int64_t> Database::bytes_used() {
  const auto pages = query_number("PRAGMA page_count");
  const auto unused = query_number("PRAGMA freelist_count");
  const auto size = query_number("PRAGMA page_size");
  for (const auto* each : {&pages, &unused, &size}) {
    if (!*each) return each->error();
  }
  return (*pages - *unused) * *size;
}

Result<std::int64_t> Database::schema_version() {
  return query_number("PRAGMA user_version");
}

Result<void> Database::set_schema_version(std::int64_t version) {
  return execute(fmt::format("PRAGMA user_version={}", version).c_str());
}

}  // namespace gpuyard::store
