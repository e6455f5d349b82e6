#include "faces/library/driver_source.h"

#include <gtest/gtest.h>

namespace gpuyard::library {
namespace {

TEST(DriverChoice, ReplayOptionsReachDriverHost) {
  DriverChoice choice;
  choice.replay = recording::Replay{"/a b.rec", std::chrono::seconds(90), 2.5,
                                    TimePoint(std::chrono::nanoseconds(123'456'789'012))};
  const auto heard = choice_of(arguments_of(choice), "/sim.so");
  ASSERT_TRUE(heard.replay);
  EXPECT_EQ(heard.replay->path, "/a b.rec");
  EXPECT_EQ(heard.replay->from, std::chrono::seconds(90));
  EXPECT_EQ(heard.replay->speed, 2.5);
  EXPECT_EQ(heard.replay->began_at, choice.replay->began_at);
}

TEST(DriverChoice, LibraryPathReachesDriverHost) {
  const auto heard = choice_of(arguments_of({"/lib/nvml.so", {}}), "/sim.so");
  EXPECT_EQ(heard.path, "/lib/nvml.so");
  EXPECT_FALSE(heard.replay);
  EXPECT_TRUE(arguments_of({}).empty());
}

}  // namespace
}  // namespace gpuyard::library
