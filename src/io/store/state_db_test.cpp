#include "store/state_db.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/scratch_directory_for_tests.h"
#include "store/state_layout.h"

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
  StateDb state(path(), kStateLayout);
  ASSERT_TRUE(commit(state, executes(kOneAccount)));
  StateDb again(directory_.in("other.db"), kStateLayout);
  int count = -1;
  ASSERT_TRUE(commit(again, counts(count)));
  EXPECT_EQ(count, 0);
}

TEST_F(StateDbTest, WhatIsCommittedIsThereInTheNextLife) {
  int count = 0;
  {
    StateDb state(path(), kStateLayout);
    ASSERT_TRUE(commit(state, executes(kOneAccount)));
  }
  StateDb state(path(), kStateLayout);
  ASSERT_TRUE(commit(state, counts(count)));
  EXPECT_EQ(count, 1);
}

TEST_F(StateDbTest, AnErrorUndoesTheWholeGroup) {
  StateDb state(path(), kStateLayout);
  const std::vector<StateDb::Work> works = {
      executes(kOneAccount), [](Database&) -> Result<void> { return Error{Errc::internal, "no"}; }};
  EXPECT_EQ(state.commit(works).error().message, "no");
  int count = -1;
  ASSERT_TRUE(commit(state, counts(count)));
  EXPECT_EQ(count, 0);
}

TEST_F(StateDbTest, ANewerOneIsLeftAsItIs) {
  {
    StateDb state(path(), kStateLayout);
    ASSERT_TRUE(commit(state, executes(kOneAccount)));
    ASSERT_TRUE(commit(state, [](Database& database) {
      return database.set_layout(static_cast<std::int64_t>(kStateLayout.size()) + 1);
    }));
  }
  StateDb state(path(), kStateLayout);
  const auto done = commit(state, nothing);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::conflict);
  EXPECT_THAT(done.error().message, ::testing::HasSubstr("a newer one's"));
  EXPECT_TRUE(state.put_aside().empty());
  EXPECT_EQ(files("state.db.corrupt"), 0U);
}

TEST_F(StateDbTest, ACorruptOneIsPutAsideAndAnotherBegins) {
  std::ofstream(path()) << std::string(8192, 'x');
  StateDb state(path(), kStateLayout);
  ASSERT_TRUE(commit(state, executes(kOneAccount)));
  ASSERT_EQ(state.put_aside().size(), 1U);
  EXPECT_THAT(state.put_aside()[0], ::testing::HasSubstr("was corrupt"));
  EXPECT_GE(files("state.db.corrupt-"), 1U);
}

TEST_F(StateDbTest, APageThatIsTornIsFoundWhenItIsOpened) {
  {
    StateDb state(path(), kStateLayout);
    ASSERT_TRUE(commit(state, executes(kOneAccount)));
  }
  {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096);
    file << std::string(4096, '\x7f');
  }
  StateDb state(path(), kStateLayout);
  EXPECT_TRUE(commit(state, nothing));
  EXPECT_EQ(state.put_aside().size(), 1U);
}

TEST_F(StateDbTest, ADiskDoesNotFillWithCorruptOnes) {
  StateDb state(path(), kStateLayout);
  for (std::size_t i = 0; i < StateDb::kMostPutAside + 2; ++i) {
    std::filesystem::remove(path() + "-wal");
    std::ofstream(path()) << std::string(8192, 'x');
    static_cast<void>(commit(state, [](Database&) -> Result<void> {
                        return Error{Errc::internal, "again"};
                      }).ok());
    ::usleep(2000);  // the name has the time in it, to the millisecond
  }
  EXPECT_EQ(state.put_aside().size(), StateDb::kMostPutAside);
  EXPECT_EQ(commit(state, nothing).error().code, Errc::invalid);
}

TEST_F(StateDbTest, APlaceThatCannotBeOpenedIsTriedAgain) {
  std::filesystem::create_directory(path());
  StateDb state(path(), kStateLayout);
  EXPECT_EQ(commit(state, nothing).error().code, Errc::denied);
  std::filesystem::remove(path());
  EXPECT_TRUE(commit(state, nothing));
}

}  // namespace
}  // namespace gpuyard::store
