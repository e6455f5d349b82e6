#include "core/processes/user_names.h"

#include <gtest/gtest.h>

namespace gpuyard::processes {
namespace {

constexpr TimePoint kQueryTime{std::chrono::hours(1)};

TEST(UserNames, RootHasANameEverywhere) {
  EXPECT_EQ(*look_up_user(0), "root");
}

TEST(UserNames, UidWithoutEntryIsNotFound) {
  const auto name = look_up_user(4'123'456'789);
  ASSERT_FALSE(name);
  EXPECT_EQ(name.error().code, Errc::not_found);
}

TEST(UserNames, AreAskedForOnceInAWhile) {
  int asked = 0;
  UserNames names([&](uid_t uid) -> Result<std::string> {
    return "user" + std::to_string(uid) + "." + std::to_string(++asked);
  });
  EXPECT_EQ(*names.name_of(5, kQueryTime), "user5.1");
  EXPECT_EQ(*names.name_of(5, kQueryTime + UserNames::kNameRetention - Duration(1)), "user5.1");
  EXPECT_EQ(*names.name_of(5, kQueryTime + UserNames::kNameRetention), "user5.2");
}

TEST(UserNames, AFailureIsForgottenSooner) {
  int asked = 0;
  UserNames names([&](uid_t) -> Result<std::string> {
    ++asked;
    return Error{Errc::unavailable, "no network"};
  });
  EXPECT_FALSE(names.name_of(5, kQueryTime));
  EXPECT_FALSE(names.name_of(5, kQueryTime + std::chrono::seconds(59)));
  EXPECT_EQ(asked, 1);
  EXPECT_FALSE(names.name_of(5, kQueryTime + UserNames::kFailureRetention));
  EXPECT_EQ(asked, 2);
}

TEST(UserNames, HaveALimit) {
  std::size_t asked = 0;
  UserNames names([&](uid_t) -> Result<std::string> {
    ++asked;
    return std::string("somebody");
  });
  for (uid_t uid = 0; uid <= UserNames::kMaxNames; ++uid) (void)names.name_of(uid, kQueryTime).ok();
  const std::size_t before = asked;
  EXPECT_TRUE(names.name_of(UserNames::kMaxNames, kQueryTime));
  EXPECT_EQ(asked, before) << "the newest is known";
  EXPECT_TRUE(names.name_of(0, kQueryTime));
  EXPECT_EQ(asked, before + 1) << "the first had to go";
}

}  // namespace
}  // namespace gpuyard::processes
