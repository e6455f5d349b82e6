#include "processes/user_names.h"

#include <gtest/gtest.h>

namespace gpuyard::processes {
namespace {

constexpr TimePoint kAsked{std::chrono::hours(1)};

TEST(UserNames, RootHasANameEverywhere) {
  EXPECT_EQ(*look_up_user(0), "root");
}

TEST(UserNames, ANumberWithoutAnEntryIsNobody) {
  const auto name = look_up_user(4'123'456'789);
  ASSERT_FALSE(name);
  EXPECT_EQ(name.error().code, Errc::not_found);
}

TEST(UserNames, AreAskedForOnceInAWhile) {
  int asked = 0;
  UserNames names([&](uid_t uid) -> Result<std::string> {
    return "user" + std::to_string(uid) + "." + std::to_string(++asked);
  });
  EXPECT_EQ(*names.of(5, kAsked), "user5.1");
  EXPECT_EQ(*names.of(5, kAsked + UserNames::kKept - Duration(1)), "user5.1");
  EXPECT_EQ(*names.of(5, kAsked + UserNames::kKept), "user5.2");
}

TEST(UserNames, AFailureIsForgottenSooner) {
  int asked = 0;
  UserNames names([&](uid_t) -> Result<std::string> {
    ++asked;
    return Error{Errc::unavailable, "no network"};
  });
  EXPECT_FALSE(names.of(5, kAsked));
  EXPECT_FALSE(names.of(5, kAsked + std::chrono::seconds(59)));
  EXPECT_EQ(asked, 1);
  EXPECT_FALSE(names.of(5, kAsked + UserNames::kFailureKept));
  EXPECT_EQ(asked, 2);
}

TEST(UserNames, HaveALimit) {
  std::size_t asked = 0;
  UserNames names([&](uid_t) -> Result<std::string> {
    ++asked;
    return std::string("somebody");
  });
  for (uid_t uid = 0; uid <= UserNames::kMost; ++uid) (void)names.of(uid, kAsked).ok();
  const std::size_t before = asked;
  EXPECT_TRUE(names.of(UserNames::kMost, kAsked));
  EXPECT_EQ(asked, before) << "the newest is known";
  EXPECT_TRUE(names.of(0, kAsked));
  EXPECT_EQ(asked, before + 1) << "the first had to go";
}

}  // namespace
}  // namespace gpuyard::processes
