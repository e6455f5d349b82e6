#include "cli/read/visible_gpus.h"

#include <gtest/gtest.h>

namespace gpuyard::cli {
namespace {

using Uuids = std::vector<std::string>;

const std::vector<BoardName> kBoards{{0, "GPU-aa11"}, {1, "GPU-aa22"}, {2, "GPU-bb33"}};
constexpr const char* kInstanceName = "MIG-377e0049-554c-540b-93c6-d0976f8426cb";

Uuids seen(std::string_view variable) {
  return visible_gpus(variable, kBoards).uuids;
}

TEST(VisibleGpus, NamesAreIndexesOrUuids) {
  EXPECT_EQ(seen("2,0"), (Uuids{"GPU-bb33", "GPU-aa11"}));
  EXPECT_EQ(seen("GPU-b, 1"), (Uuids{"GPU-bb33", "GPU-aa22"}));
  EXPECT_EQ(visible_gpus("2,0", kBoards).note, "");
}

TEST(VisibleGpus, NoneIsNoneAndNotAll) {
  for (const char* variable : {"", "-1", "NoDevFiles", "none", "9", "GPU-aa", "GPU-zz", "-1,0"}) {
    const VisibleGpus visible = visible_gpus(variable, kBoards);
    EXPECT_EQ(visible.uuids, Uuids{}) << variable;
    EXPECT_TRUE(visible.known) << variable;
    EXPECT_EQ(visible.note,
              std::string("CUDA_VISIBLE_DEVICES=\"") + variable + "\" shows the command no GPU");
  }
}

TEST(VisibleGpus, ListEndsAtItsFirstWrongName) {
  const VisibleGpus visible = visible_gpus("0,9,1", kBoards);
  EXPECT_EQ(visible.uuids, Uuids{"GPU-aa11"});
  EXPECT_NE(visible.note.find("stops at \"9\""), std::string::npos) << visible.note;
}

TEST(VisibleGpus, GpuNamedTwiceHidesAll) {
  for (const char* variable : {"0,0", "1,2,1", "1,GPU-aa22"}) {
    const VisibleGpus visible = visible_gpus(variable, kBoards);
    EXPECT_EQ(visible.uuids, Uuids{}) << variable;
    EXPECT_NE(visible.note.find("twice"), std::string::npos) << visible.note;
  }
}

TEST(VisibleGpus, InstanceNamesItsGpu) {
  const VisibleGpus visible = visible_gpus("MIG-GPU-bb33/1/0", kBoards);
  EXPECT_EQ(visible.uuids, Uuids{"GPU-bb33"});
  EXPECT_NE(visible.note.find("instance of GPU 2"), std::string::npos) << visible.note;
}

TEST(VisibleGpus, InstanceIsOfOnlyGpuInMigMode) {
  auto boards = kBoards;
  boards[1].has_instances = true;
  EXPECT_EQ(visible_gpus(kInstanceName, boards).uuids, Uuids{"GPU-aa22"});
  boards[2].has_instances = true;
  EXPECT_FALSE(visible_gpus(kInstanceName, boards).known);
}

TEST(VisibleGpus, InstanceOfUnknownGpuIsNotKnown) {
  for (const char* variable : {kInstanceName, "MIG-GPU-zz/1/0"}) {
    const VisibleGpus visible = visible_gpus(variable, kBoards);
    EXPECT_FALSE(visible.known) << variable;
    EXPECT_EQ(visible.uuids, Uuids{}) << variable;
  }
}

TEST(IsWithoutGpus, NeedsNoMachineFacts) {
  for (const char* variable : {"", "-1", "NoDevFiles", "none", " ", ",0"}) {
    EXPECT_TRUE(is_without_gpus(variable)) << variable;
  }
  for (const char* variable : {"0", "9", "0,0", "GPU-zz", kInstanceName}) {
    EXPECT_FALSE(is_without_gpus(variable)) << variable;
  }
}

}  // namespace
}  // namespace gpuyard::cli
