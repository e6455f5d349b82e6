#include "io/store/state_store.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "base/manual_worker_for_tests.h"
#include "base/scratch_directory_for_tests.h"
#include "io/store/migrations.h"

namespace gpuyard::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StateStoreTest : public ::testing::Test {
 protected:
  std::string path() const { return directory_.in("state.db"); }
  void run(int number) {
    ASSERT_TRUE(store_->run(
        Requester::daemon(),
        [this, number](Database&) -> Result<void> {
          worked_.push_back(number);
          return outcome_;
        },
        [this, number](const Result<void>& done) { (done ? kept_ : failed_).push_back(number); }));
  }

  bool enter(const Requester& requester) {
    return store_->run(
        requester, [](Database&) -> Result<void> { return {}; }, [](const Result<void>&) {});
  }
  void insert() {
    ASSERT_TRUE(store_->run(
        Requester::daemon(),
        [](Database& database) {
          return database.execute(
              "INSERT INTO energy_accounts SELECT 'GPU-' || (SELECT count(*) FROM "
              "energy_accounts),0,'b','d',1,0,0,0,0,0,NULL,1,2,3,4");
        },
        [](const Result<void>&) {}));
  }
  // Returns the number of accounts that a reader sees.
  int read() {
    std::optional<Result<int>> count;
    EXPECT_TRUE(store_->run_query<int>(
        [](Database& database) -> Result<int> {
          const auto rows = database.query_number("SELECT count(*) FROM energy_accounts");
          return rows ? Result<int>(static_cast<int>(*rows)) : rows.error();
        },
        [&](Result<int> answer) { count = std::move(answer); }));
    worker_.run_all();
    EXPECT_TRUE(count && *count) << (count ? count->error().message : "no answer");
    return count && *count ? **count : -1;
  }

  ScratchDirectory directory_;
  CapturedLog log_;
  ManualWorker worker_;
  std::unique_ptr<StateStore> store_ =
      std::make_unique<StateStore>(worker_, worker_, path(), kStateMigrations);
  Result<void> outcome_;
  std::vector<int> worked_;
  std::vector<int> kept_;
  std::vector<int> failed_;
};

TEST_F(StateStoreTest, RequestsDuringCommitShareNextCommit) {
  run(1);
  run(2);
  run(3);
  EXPECT_EQ(worker_.waiting(), 1U) << "one commit at a time";
  worker_.run_all();
  EXPECT_THAT(worked_, ElementsAre(1, 2, 3));
  EXPECT_THAT(kept_, ElementsAre(1, 2, 3));
}

TEST_F(StateStoreTest, FailedCommitIsReportedUntilNextSuccess) {
  outcome_ = Error{Errc::unavailable, "disk full"};
  run(1);
  worker_.run_all();
  EXPECT_THAT(failed_, ElementsAre(1));
  ASSERT_EQ(store_->notes().size(), 1U);
  EXPECT_THAT(store_->notes()[0], HasSubstr("disk full; retrying"));
  outcome_ = {};
  run(2);
  worker_.run_all();
  EXPECT_THAT(kept_, ElementsAre(2));
  EXPECT_THAT(store_->notes(), IsEmpty());
  EXPECT_THAT(log_.lines().back(), HasSubstr("INFO writing to "));
}

TEST_F(StateStoreTest, ContinuingFailureIsLoggedOnce) {
  outcome_ = Error{Errc::unavailable, "disk full"};
  for (int i = 0; i < 5; ++i) {
    run(i);
    worker_.run_all();
  }
  EXPECT_EQ(log_.lines().size(), 1U);
}

TEST_F(StateStoreTest, FullQueueRefusesWork) {
  worker_.full = true;
  for (std::size_t i = 0; i < limits::kMaxStateTasks; ++i) run(0);
  EXPECT_FALSE(enter(Requester::daemon()));
}

TEST_F(StateStoreTest, UserAtQueueQuotaIsRefused) {
  worker_.full = true;
  for (std::size_t i = 0; i < limits::kStateTasksPerUser; ++i) EXPECT_TRUE(enter({"uid 1001"}));
  EXPECT_FALSE(store_->can_accept({"uid 1001"}));
  EXPECT_FALSE(enter({"uid 1001"}));
  EXPECT_TRUE(enter({"uid 1002"}));
  EXPECT_TRUE(enter({"uid 1001", true})) << "an administrator";
}

TEST_F(StateStoreTest, HalfOfQueueIsReservedForLeasesAndRoot) {
  worker_.full = true;
  std::size_t entered = 0;
  for (int user = 0; user < 10'000; ++user) entered += enter({fmt::format("uid {}", user)});
  EXPECT_EQ(entered, limits::kMaxStateTasks - limits::kReservedStateTasks);
  for (std::size_t i = 0; i < limits::kReservedStateTasks; ++i) run(0);
}

TEST_F(StateStoreTest, ShareIsFreeOnceItsWorkIsDone) {
  run(1);
  for (std::size_t i = 0; i < limits::kStateTasksPerUser; ++i) EXPECT_TRUE(enter({"uid 1001"}));
  EXPECT_FALSE(enter({"uid 1001"}));
  worker_.run_all();
  EXPECT_TRUE(enter({"uid 1001"}));
}

TEST_F(StateStoreTest, ReadSeesEarlierWrites) {
  insert();
  EXPECT_EQ(read(), 1);
  insert();
  insert();
  EXPECT_EQ(read(), 3);
}

TEST_F(StateStoreTest, EmptyWorkDoesNotEndAFailure) {
  outcome_ = Error{Errc::unavailable, "disk full"};
  run(1);
  worker_.run_all();
  bool succeeded = false;
  ASSERT_TRUE(store_->run(Requester::daemon(), nullptr,
                          [&](const Result<void>& done) { succeeded = done.ok(); }));
  worker_.run_all();
  EXPECT_TRUE(succeeded);
  EXPECT_TRUE(store_->is_failing());
}

TEST_F(StateStoreTest, ReadsContinueAfterAFailedWrite) {
  insert();
  EXPECT_EQ(read(), 1);
  outcome_ = Error{Errc::unavailable, "disk full"};
  run(1);
  EXPECT_EQ(read(), 1);
  outcome_ = {};
  insert();
  EXPECT_EQ(read(), 2);
}

TEST_F(StateStoreTest, ReaderOpensReplacementOfCorruptFile) {
  insert();
  EXPECT_EQ(read(), 1);
  outcome_ = Error{Errc::unavailable, "no"};
  run(1);
  worker_.run_all();
  std::filesystem::remove(path() + "-wal");
  std::ofstream(path()) << std::string(8192, 'x');
  EXPECT_EQ(read(), 0);
  ASSERT_EQ(store_->notes().size(), 2U);
  EXPECT_THAT(store_->notes()[0], HasSubstr("was corrupt"));
}

TEST_F(StateStoreTest, FailedReadDoesNotSetIntactFileAside) {
  insert();
  std::optional<Result<int>> result;
  ASSERT_TRUE(
      store_->run_query<int>([](Database&) -> Result<int> { return Error{Errc::invalid, "torn"}; },
                             [&](Result<int> answer) { result = std::move(answer); }));
  worker_.run_all();
  ASSERT_TRUE(result && !*result);
  EXPECT_THAT(store_->notes(), IsEmpty());
  EXPECT_EQ(read(), 1);
}

TEST_F(StateStoreTest, NetworkFileSystemIsRefusedUntilLocal) {
  bool network = true;
  const auto place = [&](const std::string& directory) -> Result<void> {
    EXPECT_EQ(directory, directory_.path());
    return network ? Result<void>(Error{Errc::denied, "on a network file system (NFS)"})
                   : Result<void>();
  };
  store_ = std::make_unique<StateStore>(worker_, worker_, path(), kStateMigrations, place);
  run(1);
  worker_.run_all();
  EXPECT_THAT(failed_, ElementsAre(1));
  EXPECT_THAT(worked_, IsEmpty());
  EXPECT_THAT(store_->notes(), ElementsAre(HasSubstr("on a network file system (NFS)")));
  EXPECT_FALSE(std::filesystem::exists(path()));
  network = false;
  run(2);
  worker_.run_all();
  EXPECT_THAT(kept_, ElementsAre(2));
}

TEST_F(StateStoreTest, ShutdownRunsQueuedWorkWithoutCallbacks) {
  run(1);
  run(2);
  store_.reset();
  worker_.run_all();
  EXPECT_THAT(worked_, ElementsAre(1, 2));
  EXPECT_THAT(kept_, IsEmpty());
}

}  // namespace

}  // namespace gpuyard::store
