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
  UserDirectory directory_{loop_, worker_, [this](uid_t uid) -> Result<std::string> {
                             ++asked_;
                             if (uid == 7) return Error{Errc::not_found, "nobody"};
                             return "user" + std::to_string(uid);
                           }};
};

TEST_F(UserDirectoryTest, ANameIsKnownOnceItWasLookedUpBesideTheLoop) {
  EXPECT_FALSE(directory_.name_of(1000));
  EXPECT_FALSE(directory_.name_of(1000));
  EXPECT_EQ(worker_.waiting(), 1U) << "asked for once";
  worker_.run_all();
  EXPECT_EQ(directory_.name_of(1000), "user1000");
  EXPECT_EQ(worker_.waiting(), 0U);
  loop_.advance(UserDirectory::kKept);
  EXPECT_EQ(directory_.name_of(1000), "user1000") << "while it is asked for again";
  EXPECT_EQ(worker_.waiting(), 1U);
}

TEST_F(UserDirectoryTest, WhoWaitsForNamesHasThemOrWaitsNoLonger) {
  int done = 0;
  directory_.learn({1000, 7}, [&] { ++done; });
  EXPECT_EQ(done, 0);
  worker_.run_all();
  EXPECT_EQ(done, 1);
  EXPECT_EQ(directory_.name_of(1000), "user1000");
  EXPECT_FALSE(directory_.name_of(7)) << "there is none";
  EXPECT_EQ(asked_, 2);
  directory_.learn({1000, 7}, [&] { ++done; });
  loop_.run_posted();
  EXPECT_EQ(done, 2) << "known already";
  directory_.learn({1001}, [&] { ++done; });
  loop_.advance(UserDirectory::kPatience);
  EXPECT_EQ(done, 3) << "the name service hangs";
  worker_.run_all();
  EXPECT_EQ(done, 3);
}

TEST_F(UserDirectoryTest, AFullWorkerIsNoReasonToWait) {
  worker_.full = true;
  int done = 0;
  directory_.learn({1000}, [&] { ++done; });
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
  for (std::uint32_t uid = 10'000; many.size() < UserDirectory::kMost; ++uid) many.push_back(uid);
  directory_.learn({1}, [] {});
  worker_.run_all();
  loop_.advance(std::chrono::seconds(1));
  directory_.learn(many, [] {});
  worker_.run_all();
  EXPECT_EQ(directory_.name_of(10'000), "user10000");
  EXPECT_FALSE(directory_.name_of(1)) << "the oldest has made room";
}

}  // namespace
}  // namespace gpuyard::daemon
