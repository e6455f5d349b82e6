#include "base/slot_pool.h"

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

Requester user(int number) {
  return {.quota_group = "uid " + std::to_string(number)};
}

TEST(SlotPool, OneUserIsLimitedToItsShare) {
  SlotPool room({.max = 8, .reserved = 4, .max_per_group = 2});
  EXPECT_TRUE(room.try_acquire(user(1)));
  EXPECT_TRUE(room.try_acquire(user(1)));
  EXPECT_FALSE(room.can_acquire(user(1)));
  EXPECT_FALSE(room.try_acquire(user(1)));
  EXPECT_TRUE(room.try_acquire(user(2)));
}

TEST(SlotPool, ManyUsersLeaveTheReservedPlaces) {
  SlotPool room({.max = 8, .reserved = 4, .max_per_group = 2});
  int entered = 0;
  for (int i = 0; i < 100; ++i) entered += room.try_acquire(user(i)) ? 1 : 0;
  EXPECT_EQ(entered, 4);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(room.try_acquire(Requester::daemon()));
  EXPECT_FALSE(room.try_acquire(Requester::daemon()));
}

TEST(SlotPool, AdministratorIsNotLimitedToAShare) {
  SlotPool room({.max = 8, .reserved = 4, .max_per_group = 2});
  for (int i = 0; i < 8; ++i)
    EXPECT_TRUE(room.try_acquire({.quota_group = "uid 0", .privileged = true}));
  EXPECT_FALSE(room.can_acquire(user(1)));
}

}  // namespace
}  // namespace gpuyard
