#include "cli/slurm/gpu_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuyard::cli::slurm {
namespace {

using testing::ElementsAre;
using testing::Pair;

std::string type_of(const std::string& model) {
  return gpu_types_of({model}).at(model);
}

TEST(GpuTypes, TypeIsNameOfChip) {
  EXPECT_EQ(type_of("NVIDIA H100 80GB HBM3"), "h100");
  EXPECT_EQ(type_of("NVIDIA A100-SXM4-80GB"), "a100");
  EXPECT_EQ(type_of("NVIDIA L40S"), "l40s");
  EXPECT_EQ(type_of("Tesla T4"), "t4");
  EXPECT_EQ(type_of("NVIDIA GeForce RTX 4090"), "rtx_4090");
  EXPECT_EQ(type_of("NVIDIA GH200 480GB"), "gh200");
}

// Slurm would take it for a number of GPUs.
TEST(GpuTypes, WordNeverBeginsWithDigit) {
  EXPECT_EQ(type_of("GeForce 8800 GT"), "gpu_8800");
  EXPECT_EQ(type_of("4090"), "gpu_4090");
}

TEST(GpuTypes, ModelsOfOneChipGetLongerWords) {
  EXPECT_THAT(
      gpu_types_of({"NVIDIA A100-SXM4-80GB", "NVIDIA A100-PCIE-40GB", "NVIDIA L4"}),
      ElementsAre(Pair("NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"),
                  Pair("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"), Pair("NVIDIA L4", "l4")));
}

TEST(GpuTypes, ModelsThatDifferInPunctuationAreNumbered) {
  EXPECT_THAT(gpu_types_of({"NVIDIA X (1)", "NVIDIA X [1]"}),
              ElementsAre(Pair("NVIDIA X (1)", "x__1_"), Pair("NVIDIA X [1]", "x__1__2")));
}

// A line end in a model would be another line of slurm.conf.
TEST(GpuTypes, OtherCharactersAreReplaced) {
  EXPECT_EQ(type_of("a\nb,c:d(e)=\"x\""), "a_b_c_d_e___x_");
}

}  // namespace
}  // namespace gpuyard::cli::slurm
