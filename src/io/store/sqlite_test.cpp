#include "io/store/sqlite.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <vector>

#include <gtest/gtest.h>

#include "base/scratch_directory_for_tests.h"
#include "io/store/fake_disk_vfs_for_tests.h"
#include "io/store/sqlite_rows.h"

namespace gpuyard::store {
namespace {

class SqliteTest : public ::testing::Test {
 protected:
  std::string path() const { return directory_.in("test.db"); }
  Result<Database> open() const { return Database::open(path(), Durability::full); }
  static std::int64_t count(Database& database) {
    auto query = database.prepare("SELECT count(*) FROM t");
    EXPECT_TRUE(query && query->step().ok());
    return query->integer(0);
  }

  const ScratchDirectory directory_;
};

TEST_F(SqliteTest, BoundValuesRoundTrip) {
  auto database = open();
  ASSERT_TRUE(database) << database.error().message;
  ASSERT_TRUE(database->execute("CREATE TABLE t(i INTEGER, r REAL, s TEXT, b BLOB, n)"));
  auto insert = database->prepare("INSERT INTO t VALUES(?,?,?,?,?)");
  ASSERT_TRUE(insert);
  const std::vector<std::byte> bytes = {std::byte{0}, std::byte{255}};
  insert->bind(1, INT64_MIN).bind(2, 0.1).bind(3, "caf\xc3\xa9").bind(4, Blob(bytes)).bind_null(5);
  ASSERT_TRUE(insert->run());
  auto select = database->prepare("SELECT * FROM t");
  ASSERT_TRUE(select);
  const auto row = select->step();
  ASSERT_TRUE(row && *row);
  EXPECT_EQ(select->integer(0), INT64_MIN);
  EXPECT_EQ(select->real(1), 0.1);
  EXPECT_EQ(select->text(2), "caf\xc3\xa9");
  EXPECT_EQ(std::vector<std::byte>(select->blob(3).begin(), select->blob(3).end()), bytes);
  EXPECT_TRUE(select->is_null(4));
}

TEST_F(SqliteTest, ReusedStatementIsReset) {
  auto database = open();
  ASSERT_TRUE(database && database->execute("CREATE TABLE t(i)"));
  for (const bool bound : {true, false}) {
    auto insert = database->prepare("INSERT INTO t VALUES(?)");
    ASSERT_TRUE(insert);
    if (bound) insert->bind(1, std::int64_t{7});
    ASSERT_TRUE(insert->run());
  }
  auto select = database->prepare("SELECT i FROM t ORDER BY rowid");
  ASSERT_TRUE(*select->step());
  EXPECT_EQ(select->integer(0), 7);
  {
    auto same = database->prepare("SELECT i FROM t ORDER BY rowid");
    ASSERT_TRUE(*same->step());
    EXPECT_EQ(same->integer(0), 7);
  }
  ASSERT_TRUE(*select->step());
  EXPECT_TRUE(select->is_null(0));
}

TEST_F(SqliteTest, EvictedStatementsAreRecompiled) {
  auto database = open();
  ASSERT_TRUE(database);
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < StatementCache::kMaxStatements + 10; ++i) {
      auto select = database->prepare("SELECT " + std::to_string(i));
      ASSERT_TRUE(select && *select->step());
      EXPECT_EQ(select->integer(0), static_cast<std::int64_t>(i));
    }
  }
}

TEST_F(SqliteTest, AKeptStatementFollowsItsTable) {
  auto database = open();
  ASSERT_TRUE(database && database->execute("CREATE TABLE t(i); INSERT INTO t VALUES(1)"));
  EXPECT_EQ(count(*database), 1);
  ASSERT_TRUE(database->execute("DROP TABLE t; CREATE TABLE t(i, j)"));
  EXPECT_EQ(count(*database), 0);
}

TEST_F(SqliteTest, FailedTransactionIsRolledBack) {
  auto database = open();
  ASSERT_TRUE(database && database->execute("CREATE TABLE t(i)"));
  const auto failed = database->run_transaction([&]() -> Result<void> {
    if (auto done = database->execute("INSERT INTO t VALUES(1)"); !done) return done;
    return Error{Errc::conflict, "no"};
  });
  EXPECT_FALSE(failed);
  EXPECT_EQ(count(*database), 0);
  const auto done =
      database->run_transaction([&] { return database->execute("INSERT INTO t VALUES(1)"); });
  EXPECT_TRUE(done);
  EXPECT_EQ(count(*database), 1);
}

TEST_F(SqliteTest, ItIsForItsUserAlone) {
  const auto database = open();
  ASSERT_TRUE(database);
  struct stat facts{};
  ASSERT_EQ(::stat(path().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777U, 0600U);
}

TEST_F(SqliteTest, AnotherProgramIsKeptOut) {
  const auto first = open();
  ASSERT_TRUE(first);
  const auto second = open();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::busy);
}

TEST_F(SqliteTest, SecondConnectionReadsCommittedData) {
  auto writer = Database::open(path(), Durability::full, Database::Sharing::readers);
  ASSERT_TRUE(writer) << writer.error().message;
  ASSERT_TRUE(writer->execute("CREATE TABLE t(n INTEGER)"));
  auto reader = Database::open_reader(path());
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_EQ(count(*reader), 0);
  ASSERT_TRUE(writer->run_transaction([&] {
    auto done = writer->execute("INSERT INTO t VALUES(1)");
    EXPECT_EQ(count(*reader), 0);
    return done;
  }));
  EXPECT_EQ(count(*reader), 1);
  EXPECT_FALSE(reader->execute("INSERT INTO t VALUES(2)"));
}

TEST_F(SqliteTest, CommitsDoNotExtendTheWal) {
  const std::string wal = path() + "-wal";
  auto writer = Database::open(path(), Durability::full, Database::Sharing::readers);
  ASSERT_TRUE(writer) << writer.error().message;
  const auto reserved = std::filesystem::file_size(wal);
  ASSERT_TRUE(writer->execute("CREATE TABLE t(n INTEGER)"));
  constexpr int kCommits = 1500;  // the WAL begins anew meanwhile
  for (int i = 0; i < kCommits; ++i) ASSERT_TRUE(writer->execute("INSERT INTO t VALUES(1)"));
  EXPECT_EQ(std::filesystem::file_size(wal), reserved);

  // What a kill leaves.
  const ScratchDirectory copies;
  const std::string copy = copies.in("copy.db");
  for (const char* const part : {"", "-wal"})
    std::filesystem::copy_file(path() + part, copy + part);
  auto recovered = Database::open(copy, Durability::full, Database::Sharing::readers);
  ASSERT_TRUE(recovered) << recovered.error().message;
  EXPECT_EQ(count(*recovered), kCommits);
}

TEST_F(SqliteTest, FullDiskLeavesTheWalShort) {
  {
    auto writer = open();
    ASSERT_TRUE(writer && writer->execute("CREATE TABLE t(n INTEGER)"));
  }
  constexpr rlim_t kMaxBytes = 1 << 20;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{kMaxBytes, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  auto writer = Database::open(path(), Durability::full, Database::Sharing::readers);
  const auto done = writer ? writer->execute("INSERT INTO t VALUES(1)") : Result<void>();
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_TRUE(writer) << writer.error().message;
  EXPECT_TRUE(done);
  EXPECT_LT(std::filesystem::file_size(path() + "-wal"), kMaxBytes / 2);
}

// An open file description lock conflicts with process locks, even with those of the same process.
TEST_F(SqliteTest, DatabaseWithAReaderIsLockedForOtherPrograms) {
  const auto writer = Database::open(path(), Durability::full, Database::Sharing::readers);
  ASSERT_TRUE(writer) << writer.error().message;
  const int file = ::open(path().c_str(), O_RDWR | O_CLOEXEC);
  struct flock lock{};
  lock.l_type = F_RDLCK;
  EXPECT_NE(::fcntl(file, F_OFD_SETLK, &lock), 0);
  ::close(file);
}

TEST_F(SqliteTest, NonDatabaseFileIsInvalid) {
  std::ofstream(path()) << std::string(5000, 'x');
  const auto database = open();
  ASSERT_FALSE(database);
  EXPECT_EQ(database.error().code, Errc::invalid) << database.error().message;
  EXPECT_NE(database.error().message.find(path()), std::string::npos);
}

TEST_F(SqliteTest, ADirectoryThatIsNotThereIsDenied) {
  const auto database = Database::open(directory_.in("none/test.db"), Durability::normal);
  ASSERT_FALSE(database);
  EXPECT_EQ(database.error().code, Errc::denied) << database.error().message;
}

// A later commit that is synced would depend on what is lost.
TEST_F(SqliteTest, WalSyncFailureFailsCheckpointingCommit) {
  FakeDisk disk;
  disk.insert({});
  auto database = Database::open(FakeDisk::kPath, Durability::normal);
  ASSERT_TRUE(database) << database.error().message;
  ASSERT_TRUE(database->execute("CREATE TABLE t(i)"));
  database->set_checkpoint_pages(8);
  disk.fail([](const DiskStep& step) {
    return step.kind == DiskStep::Kind::sync ? SQLITE_IOERR_FSYNC : SQLITE_OK;
  });
  Result<void> done;
  int commits = 0;
  for (; done && commits < 20; ++commits) {
    done = database->run_transaction([&] { return database->execute("INSERT INTO t VALUES(1)"); });
  }
  EXPECT_GT(commits, 1) << "a commit of its own syncs nothing";
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::unavailable) << done.error().message;
  database->keep_wal_on_close();
  disk.fail(nullptr);
}

TEST_F(SqliteTest, SchemaVersionPersists) {
  {
    auto database = open();
    ASSERT_TRUE(database);
    EXPECT_EQ(*database->schema_version(), 0);
    ASSERT_TRUE(database->set_schema_version(3));
  }
  auto database = open();
  ASSERT_TRUE(database);
  EXPECT_EQ(*database->schema_version(), 3);
}

}  // namespace
}  // namespace gpuyard::store
