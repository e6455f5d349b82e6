#include "io/store/state_db.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "base/manual_worker_for_tests.h"
#include "base/scratch_directory_for_tests.h"
#include "io/store/migrations.h"

namespace gpuyard::store {
namespace {

class StateDbTest : public ::testing::Test {
 protected:
  std::string path() const { return directory_.in("state.db"); }
  static Result<void> commit(StateDb& state, StateDb::Work work) {
    const std::vector<StateDb::Work> works = {std::move(work)};
    return state.commit(works);
  }
  static Result<void> nothing(Database&) { return {}; }
  static StateDb::Work executes(const char* statements) {
    return [statements](Database& database) { return database.execute(statements); };
  }
  static StateDb::Work counts(int& count) {
    return [&count](Database& database) -> Result<void> {
      auto rows = database.prepare("SELECT count(*) FROM energy_accounts");
      if (!rows) return std::move(rows).error();
      if (const auto row = rows->step(); !row) return row.error();
      count = static_cast<int>(rows->integer(0));
      return {};
    };
  }
  static constexpr const char* kOneAccount =
      "INSERT INTO energy_accounts VALUES('GPU-0',0,'b','d',1,0,0,0,0,0,NULL,1,2,3,4)";
  std::size_t files(const std::string& beginning) const {
    std::size_t count = 0;
    for (const auto& file : std::filesystem::directory_iterator(directory_.path())) {
      count += file.path().filename().string().starts_with(beginning) ? 1 : 0;
    }
    return count;
  }

  ScratchDirectory directory_;
};

TEST_F(StateDbTest, AMissingOneIsMadeWithEveryTable) {
  StateDb state(path(), kStateMigrations);
  ASSERT_TRUE(commit(state, executes(kOneAccount)));
  StateDb again(directory_.in("other.db"), kStateMigrations);
  int count = -1;
  ASSERT_TRUE(commit(again, counts(count)));
  EXPECT_EQ(count, 0);
}

TEST_F(StateDbTest, AnErrorUndoesTheWholeGroup) {
  StateDb state(path(), kStateMigrations);
  const std::vector<StateDb::Work> works = {
      executes(kOneAccount), [](Database&) -> Result<void> { return Error{Errc::internal, "no"}; }};
  EXPECT_EQ(state.commit(works).error().message, "no");
  int count = -1;
  ASSERT_TRUE(commit(state, counts(count)));
  EXPECT_EQ(count, 0);
}

TEST_F(StateDbTest, ReadDoesNotWaitForACommit) {
  StateDb state(path(), kStateMigrations);
  const std::function<Result<std::int64_t>(Database&)> counts = [](Database& database) {
    return database.query_number("SELECT count(*) FROM energy_accounts");
  };
  EXPECT_EQ(state.reader()->run_query(counts).error().code, Errc::unavailable)
      << "nothing is open yet";
  std::vector<std::int64_t> counted;
  const auto count = [&] {
    const auto rows = state.reader()->run_query(counts);
    ASSERT_TRUE(rows) << rows.error().message;
    counted.push_back(*rows);
  };
  ASSERT_TRUE(commit(state, [&](Database& database) {
    auto done = database.execute(kOneAccount);
    count();
    return done;
  }));
  count();
  EXPECT_EQ(counted, (std::vector<std::int64_t>{0, 1}));
}

TEST_F(StateDbTest, ClosingRemovesWalOfReader) {
  {
    StateDb state(path(), kStateMigrations);
    ASSERT_TRUE(commit(state, executes(kOneAccount)));
    const std::function<Result<std::int64_t>(Database&)> layout = &Database::schema_version;
    EXPECT_TRUE(state.reader()->run_query(layout));
  }
  EXPECT_EQ(files("state.db"), 1U);
}

TEST_F(StateDbTest, ANewerOneIsLeftAsItIs) {
  {
    StateDb state(path(), kStateMigrations);
    ASSERT_TRUE(commit(state, executes(kOneAccount)));
    ASSERT_TRUE(commit(state, [](Database& database) {
      return database.set_schema_version(static_cast<std::int64_t>(kStateMigrations.size()) + 1);
    }));
  }
  StateDb state(path(), kStateMigrations);
  const auto done = commit(state, nothing);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::conflict);
  EXPECT_THAT(done.error().message, ::testing::HasSubstr("written by a newer version"));
  EXPECT_TRUE(state.corruption_notes().empty());
  EXPECT_EQ(files("state.db.corrupt"), 0U);
}

TEST_F(StateDbTest, ACorruptOneIsPutAsideAndAnotherBegins) {
  std::ofstream(path()) << std::string(8192, 'x');
  StateDb state(path(), kStateMigrations);
  ASSERT_TRUE(commit(state, executes(kOneAccount)));
  ASSERT_EQ(state.corruption_notes().size(), 1U);
  EXPECT_THAT(state.corruption_notes()[0], ::testing::HasSubstr("was corrupt"));
  EXPECT_GE(files("state.db.corrupt-"), 1U);
}

TEST_F(StateDbTest, TornPageIsDetectedOnOpen) {
  {
    StateDb state(path(), kStateMigrations);
    ASSERT_TRUE(commit(state, executes(kOneAccount)));
  }
  {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096);
    file << std::string(4096, '\x7f');
  }
  StateDb state(path(), kStateMigrations);
  EXPECT_TRUE(commit(state, nothing));
  EXPECT_EQ(state.corruption_notes().size(), 1U);
}

TEST_F(StateDbTest, ADiskDoesNotFillWithCorruptOnes) {
  StateDb state(path(), kStateMigrations);
  for (std::size_t i = 0; i < StateDb::kMaxCorruptFiles + 2; ++i) {
    std::filesystem::remove(path() + "-wal");
    std::ofstream(path()) << std::string(8192, 'x');
    static_cast<void>(commit(state, [](Database&) -> Result<void> {
                        return Error{Errc::internal, "again"};
                      }).ok());
    ::usleep(2000);  // the name has the time in it, to the millisecond
  }
  EXPECT_EQ(state.corruption_notes().size(), StateDb::kMaxCorruptFiles);
  EXPECT_EQ(commit(state, nothing).error().code, Errc::invalid);
}

TEST_F(StateDbTest, APlaceThatCannotBeOpenedIsTriedAgain) {
  std::filesystem::create_directory(path());
  StateDb state(path(), kStateMigrations);
  EXPECT_EQ(commit(state, nothing).error().code, Errc::denied);
  std::filesystem::remove(path());
  EXPECT_TRUE(commit(state, nothing));
}

}  // namespace
}  // namespace gpuyard::store
