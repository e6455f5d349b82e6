#include "io/kubelet/device_id.h"

#include <string>

#include <gtest/gtest.h>

namespace gpuyard::kubelet {
namespace {

const std::string kWholeGpu = "GPU-0b4a1f2e-93c6-4d02-8a8f-e1cbf99717fc";

TEST(DeviceId, UuidIsAWholeGpu) {
  EXPECT_TRUE(is_whole_gpu(kWholeGpu));
}

TEST(DeviceId, SharesAreNotWholeGpus) {
  for (const std::string& id :
       {kWholeGpu + "::0", kWholeGpu + "-4", kWholeGpu + "-_-12", "MIG-" + kWholeGpu + "/1/0",
        std::string("MIG-377e0049-554c-540b-93c6-d0976f8426cb")}) {
    EXPECT_TRUE(is_gpu_id(id)) << id;
    EXPECT_FALSE(is_whole_gpu(id)) << id;
  }
}

// An id of an unknown form is never taken for a GPU of its own.
TEST(DeviceId, UnknownFormIsNotAWholeGpu) {
  EXPECT_FALSE(is_whole_gpu("GPU-0b4a1f2e"));
  EXPECT_FALSE(is_whole_gpu("GPU-0b4a1f2e-93c6-4d02-8a8f-e1cbf99717fx"));
  EXPECT_FALSE(is_whole_gpu("GPU-0b4a1f2e_93c6-4d02-8a8f-e1cbf99717fc"));
  EXPECT_FALSE(is_gpu_id("nvidia0"));
  EXPECT_FALSE(is_gpu_id(""));
}

TEST(DeviceId, UuidOfAShareIsReturned) {
  EXPECT_EQ(gpu_uuid_of(kWholeGpu), kWholeGpu);
  EXPECT_EQ(gpu_uuid_of(kWholeGpu + "::0"), kWholeGpu);
  EXPECT_EQ(gpu_uuid_of(kWholeGpu + "-4"), kWholeGpu);
  EXPECT_EQ(gpu_uuid_of("MIG-377e0049-554c-540b-93c6-d0976f8426cb"), "");
}

}  // namespace
}  // namespace gpuyard::kubelet
