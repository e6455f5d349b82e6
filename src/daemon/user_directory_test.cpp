#include "daemon/user_directory.h"

#include <gtest/gtest.h>

#include "base/manual_loop_for_tests.h"
#include "base/manual_worker_for_tests.h"

namespace gpuyard::daemon {
namespace {

class UserDirectoryTest : public ::testing::Test {
 protected:
  ManualLoop loop_;
  ManualWorker worker_;
  int asked_ = 0;
  bool fails_ = false;
  UserDirectory directory_{loop_, worker_, [this](uid_t uid) -> Result<std::string> {
                             ++asked_;
                             if (uid == 7) return Error{Errc::not_found, "nobody"};
                             if (fails_) return Error{Errc::unavailable, "no name service"};
                             return "user" + std::to_string(uid);
                           }};
};

TEST_F(UserDirectoryTest, NameResolvesOnWorkerAndStaysDuringRefresh) {
  EXPECT_FALSE(directory_.name_of(1000));
  EXPECT_FALSE(directory_.name_of(1000));
  EXPECT_EQ(worker_.waiting(), 1U) << "asked for once";
  worker_.run_all();
  EXPECT_EQ(directory_.name_of(1000), "user1000");
  EXPECT_EQ(worker_.waiting(), 0U);
  loop_.advance(UserDirectory::kNameRetention);
  EXPECT_EQ(directory_.name_of(1000), "user1000") << "while it is asked for again";
  EXPECT_EQ(worker_.waiting(), 1U);
}

TEST_F(UserDirectoryTest, WaitForNamesEndsOnResultOrTimeout) {
  int done = 0;
  directory_.resolve({1000, 7}, [&] { ++done; });
  EXPECT_EQ(done, 0);
  worker_.run_all();
  EXPECT_EQ(done, 1);
  EXPECT_EQ(directory_.name_of(1000), "user1000");
  EXPECT_FALSE(directory_.name_of(7)) << "there is none";
  EXPECT_EQ(asked_, 2);
  directory_.resolve({1000, 7}, [&] { ++done; });
  loop_.run_posted();
  EXPECT_EQ(done, 2) << "known already";
  directory_.resolve({1001}, [&] { ++done; });
  loop_.advance(UserDirectory::kResolveTimeout);
  EXPECT_EQ(done, 3) << "the name service hangs";
  worker_.run_all();
  EXPECT_EQ(done, 3);
}

TEST_F(UserDirectoryTest, OnlyUsersUnknownToTheSystemAreGone) {
  fails_ = true;
  for (const std::uint32_t uid : {7U, 1000U})
    EXPECT_FALSE(directory_.is_gone(uid)) << "not looked up";
  worker_.run_all();
  EXPECT_TRUE(directory_.is_gone(7));
  EXPECT_FALSE(directory_.is_gone(1000)) << "the look-up failed";
  EXPECT_EQ(worker_.waiting(), 0U);
}

TEST_F(UserDirectoryTest, FailedLookupKeepsKnownName) {
  directory_.resolve({1000}, [] {});
  worker_.run_all();
  fails_ = true;
  loop_.advance(UserDirectory::kNameRetention);
  EXPECT_EQ(directory_.name_of(1000), "user1000");
  worker_.run_all();
  EXPECT_EQ(directory_.name_of(1000), "user1000");
  EXPECT_FALSE(directory_.is_gone(1000));
  EXPECT_EQ(worker_.waiting(), 0U);
  loop_.advance(UserDirectory::kFailureRetention);
  directory_.name_of(1000);
  EXPECT_EQ(worker_.waiting(), 1U) << "retried sooner than a name expires";
}

TEST_F(UserDirectoryTest, FollowedUsersResolveInBackground) {
  std::vector<std::uint32_t> users = {7};
  directory_.refresh_regularly([&] { return users; });
  loop_.advance(UserDirectory::kRefreshInterval);
  users.push_back(1000);
  loop_.advance(10 * UserDirectory::kRefreshInterval);
  EXPECT_EQ(worker_.waiting(), 1U) << "one at a time, while the name service hangs";
  worker_.run_all();
  EXPECT_EQ(asked_, 2);
  EXPECT_TRUE(directory_.is_gone(7));
  EXPECT_EQ(directory_.name_of(1000), "user1000");
  EXPECT_EQ(asked_, 2);
}

TEST_F(UserDirectoryTest, UrgentLookupsPrecedeBackgroundAsSeparateTasks) {
  std::vector<std::uint32_t> many;
  for (std::uint32_t uid = 1; uid < 2 * UserDirectory::kMaxNames; ++uid) many.push_back(uid);
  directory_.refresh_regularly([&] { return many; });
  loop_.advance(UserDirectory::kRefreshInterval);
  EXPECT_EQ(worker_.waiting(), 1U);
  int done = 0;
  directory_.resolve({900}, [&] { ++done; });
  directory_.resolve({5000}, [&] { ++done; });
  loop_.run_posted();
  EXPECT_EQ(done, 1) << "5000 is one too many";
  worker_.run_one();
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(worker_.waiting(), 1U);
  worker_.run_one();
  EXPECT_EQ(done, 2);
  EXPECT_EQ(directory_.name_of(900), "user900");
  EXPECT_EQ(asked_, 2);
}

TEST_F(UserDirectoryTest, AFullWorkerIsNoReasonToWait) {
  worker_.full = true;
  int done = 0;
  directory_.resolve({1000}, [&] { ++done; });
  loop_.run_posted();
  EXPECT_EQ(done, 1);
  EXPECT_FALSE(directory_.name_of(1000));
  worker_.full = false;
  EXPECT_FALSE(directory_.name_of(1000));
  worker_.run_all();
  EXPECT_EQ(directory_.name_of(1000), "user1000");
}

TEST_F(UserDirectoryTest, KnowsABoundedNumber) {
  std::vector<std::uint32_t> many;
  for (std::uint32_t uid = 10'000; many.size() < UserDirectory::kMaxNames; ++uid)
    many.push_back(uid);
  directory_.resolve({1}, [] {});
  worker_.run_all();
  loop_.advance(std::chrono::seconds(1));
  directory_.resolve(many, [] {});
  worker_.run_all();
  EXPECT_EQ(directory_.name_of(10'000), "user10000");
  EXPECT_FALSE(directory_.name_of(1)) << "the oldest has made room";
}

}  // namespace
}  // namespace gpuyard::daemon
