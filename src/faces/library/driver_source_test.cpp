#include "faces/library/driver_source.h"

#include <gtest/gtest.h>

namespace gpuyard::library {
namespace {

TEST(DriverChoice, ReplayOptionsReachDriverHost) {
  DriverChoice choice;
  choice.replay = recording::Replay{"/a b.rec", std::chrono::seconds(90), 2.5,
                                    TimePoint(std::chrono::nanoseconds(123'456'789'012))};
  const auto parsed = choice_of(arguments_of(choice), "/sim.so");
  ASSERT_TRUE(parsed.replay);
  EXPECT_EQ(parsed.replay->path, "/a b.rec");
  EXPECT_EQ(parsed.replay->from, std::chrono::seconds(90));
  EXPECT_EQ(parsed.replay->speed, 2.5);
  EXPECT_EQ(parsed.replay->began_at, choice.replay->began_at);
}

TEST(DriverChoice, LibraryPathReachesDriverHost) {
  const auto parsed = choice_of(arguments_of({"/lib/nvml.so", {}}), "/sim.so");
  EXPECT_EQ(parsed.path, "/lib/nvml.so");
  EXPECT_FALSE(parsed.replay);
  EXPECT_TRUE(arguments_of({}).empty());
}

}  // namespace
}  // namespace gpuyard::library
