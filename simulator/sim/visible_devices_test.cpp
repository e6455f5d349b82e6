#include "sim/visible_devices.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace gpuyard::sim {
namespace {

using Indices = std::vector<int>;

const std::vector<std::string> kFleet{"GPU-aa11", "GPU-aa22", "GPU-bb33"};

TEST(VisibleDevices, IndexOrUuidPrefixSelectsGpu) {
  EXPECT_EQ(visible_devices("0", kFleet), Indices{0});
  EXPECT_EQ(visible_devices("2,0", kFleet), (Indices{2, 0}));
  EXPECT_EQ(visible_devices("GPU-b", kFleet), Indices{2});
  EXPECT_EQ(visible_devices("GPU-aa22, 2", kFleet), (Indices{1, 2}));
}

TEST(VisibleDevices, ListEndsAtFirstUnknownName) {
  EXPECT_EQ(visible_devices("", kFleet), Indices{});
  EXPECT_EQ(visible_devices("-1", kFleet), Indices{});
  EXPECT_EQ(visible_devices("1,3,0", kFleet), Indices{1});
  EXPECT_EQ(visible_devices("1,NoDevFiles,0", kFleet), Indices{1});
  EXPECT_EQ(visible_devices("GPU-aa,0", kFleet), Indices{});  // two UUIDs begin with this
  EXPECT_EQ(visible_devices("2,", kFleet), Indices{2});
}

TEST(VisibleDevices, RepeatedGpuHidesAllGpus) {
  EXPECT_EQ(visible_devices("1,2,1", kFleet), Indices{});
  EXPECT_EQ(visible_devices("1,GPU-aa22", kFleet), Indices{});
}

TEST(CudaVisibleDevicesOf, MissingProcessIsNotFound) {
  EXPECT_EQ(cuda_visible_devices_of(4'194'304).error().code, Errc::not_found);
}

}  // namespace
}  // namespace gpuyard::sim
