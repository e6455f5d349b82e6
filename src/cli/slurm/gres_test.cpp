#include "cli/slurm/gres.h"

#include <gmock/gmock.h>

namespace gpuyard::cli::slurm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

// The lists are those of Slurm 22.05.
TEST(SlurmGres, ListsOfEachCommandAreParsed) {
  EXPECT_THAT(parse_gres_list("gres:gpu:h100:2"), Optional(ElementsAre(GresGpus{"h100", 2})));
  EXPECT_THAT(parse_gres_list("gres:gpu:2"), Optional(ElementsAre(GresGpus{"", 2})));
  EXPECT_THAT(parse_gres_list("gres:gpu"), Optional(ElementsAre(GresGpus{"", 1})));
  EXPECT_THAT(parse_gres_list("gres:gpu:h100"), Optional(ElementsAre(GresGpus{"h100", 1})));
  EXPECT_THAT(parse_gres_list("gpu:h100:8(S:0-1),gpu:l40s:2(S:0,2),shard:16(S:0,1)"),
              Optional(ElementsAre(GresGpus{"h100", 8}, GresGpus{"l40s", 2})));
  EXPECT_THAT(parse_gres_list("gpu:h100:3(IDX:0-1,3),gpu:h100_nvl:0(IDX:N/A)"),
              Optional(ElementsAre(GresGpus{"h100", 3, {0, 1, 3}}, GresGpus{"h100_nvl", 0})));
  EXPECT_THAT(parse_gres_list("gpu:(null):2(IDX:0-1)"),
              Optional(ElementsAre(GresGpus{"", 2, {0, 1}})));
  EXPECT_THAT(parse_gres_list("gres/gpu=2,gres/gpu:h100=2"),
              Optional(ElementsAre(GresGpus{"", 2}, GresGpus{"h100", 2})));
}

TEST(SlurmGres, ListWithoutGpusIsEmpty) {
  for (const char* const none :
       {"", "(null)", "N/A", "  ", "shard:4", "gpumem:4", "gres:craynetwork"})
    EXPECT_THAT(parse_gres_list(none), Optional(IsEmpty())) << none;
}

TEST(SlurmGres, MalformedListIsNotReadInPart) {
  for (const char* const wrong :
       {"gpu:4(S:0", "gpu:h100:2)", "gpu:h100:x:2", "gpu:", "gpu:a b:2", "gpu:-1",
        "gpu:h100:100001", "gpu:2,gpu:h100:2(IDX:0-1", "gpu:99999999999999999999", "gpu=h100"})
    EXPECT_FALSE(parse_gres_list(wrong)) << wrong;
}

TEST(SlurmGres, MismatchedIndexesAreUnknown) {
  for (const char* const list :
       {"gpu:h100:2(IDX:0)", "gpu:h100:2(IDX:1-0)", "gpu:h100:2(IDX:0-)", "gpu:h100:2(IDX:)",
        "gpu:h100:2(IDX:0-4000000000)", "gpu:h100:2(S:0-1)"})
    EXPECT_THAT(parse_gres_list(list), Optional(ElementsAre(GresGpus{"h100", 2}))) << list;
}

}  // namespace
}  // namespace gpuyard::cli::slurm
