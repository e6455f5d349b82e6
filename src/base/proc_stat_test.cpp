#include "base/proc_stat.h"

#include <unistd.h>

#include <optional>

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

TEST(ProcessStartTime, AProcessKeepsItsStartTime) {
  const auto once = process_start_time(::getpid());
  ASSERT_TRUE(once);
  EXPECT_GT(*once, 0U);
  EXPECT_EQ(process_start_time(::getpid()), once);
}

TEST(ProcessStartTime, MissingProcessHasNoStartTime) {
  EXPECT_EQ(process_start_time(-1), std::nullopt);
}

}  // namespace

}  // namespace gpuyard
