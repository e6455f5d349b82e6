#include "base/shared_room.h"

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

Requester user(int number) {
  return {.party = "uid " + std::to_string(number)};
}

TEST(SharedRoom, OneUserIsLimitedToItsShare) {
  SharedRoom room({.most = 8, .kept = 4, .most_of_one = 2});
  EXPECT_TRUE(room.enter(user(1)));
  EXPECT_TRUE(room.enter(user(1)));
  EXPECT_FALSE(room.fits(user(1)));
  EXPECT_FALSE(room.enter(user(1)));
  EXPECT_TRUE(room.enter(user(2)));
}

TEST(SharedRoom, ManyUsersLeaveTheReservedPlaces) {
  SharedRoom room({.most = 8, .kept = 4, .most_of_one = 2});
  int entered = 0;
  for (int i = 0; i < 100; ++i) entered += room.enter(user(i)) ? 1 : 0;
  EXPECT_EQ(entered, 4);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(room.enter(Requester::daemon()));
  EXPECT_FALSE(room.enter(Requester::daemon()));
}

TEST(SharedRoom, AdministratorIsNotLimitedToAShare) {
  SharedRoom room({.most = 8, .kept = 4, .most_of_one = 2});
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(room.enter({.party = "uid 0", .privileged = true}));
  EXPECT_FALSE(room.fits(user(1)));
}

}  // namespace
}  // namespace gpuyard
