#include "cli/slurm/sinfo_types.h"

#include <gmock/gmock.h>

namespace gpuyard::cli::slurm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(SinfoTypes, SinfoOutputIsParsed) {
  EXPECT_THAT(parse_gpu_types("gpu:h100:8(S:0-1)\n"
                              "gpu:a100:2(S:0,2),gpu:h100:2(S:1,3),shard:h200:16(S:0,1)\n"
                              "(null)\n"
                              "gpu:4(S:0)\n"
                              "gpu:l40s:1"),
              ElementsAre("a100", "h100", "l40s"));
  EXPECT_THAT(parse_gpu_types("gpu:4(S:0\ngpu:t4:1\n"), ElementsAre("t4")) << "a line that is cut";
  EXPECT_THAT(parse_gpu_types(""), IsEmpty());
}

TEST(SinfoTypes, CaseAndPunctuationOfModelAreIgnored) {
  const std::vector<std::string> types = {"a100_40gb", "a100_80gb", "nvidia_h100_nvl"};
  EXPECT_THAT(types_of_model(types, "H100 NVL"), ElementsAre("nvidia_h100_nvl"));
  EXPECT_THAT(types_of_model(types, "A100"), ElementsAre("a100_40gb", "a100_80gb"));
  EXPECT_THAT(types_of_model(types, "a100-80"), ElementsAre("a100_80gb"));
  EXPECT_THAT(types_of_model(types, "L40S"), IsEmpty());
  EXPECT_THAT(types_of_model(types, "--"), IsEmpty());
}

TEST(SinfoTypes, ExactTypeNameMatchesOnlyThatType) {
  const std::vector<std::string> types = {"h100", "h100_nvl"};
  EXPECT_THAT(types_of_model(types, "H100"), ElementsAre("h100"));
  EXPECT_THAT(types_of_model(types, "h100_nvl"), ElementsAre("h100_nvl"));
  EXPECT_THAT(types_of_model({"h-100", "h100"}, "h100"), ElementsAre("h100"));
  EXPECT_THAT(types_of_model({"h-100", "h100"}, "H100"), ElementsAre("h-100", "h100"));
}

}  // namespace
}  // namespace gpuyard::cli::slurm
