#include "cli/slurm/cluster_nodes.h"

#include <gmock/gmock.h>

#include "cli/slurm/fixed_lines_for_tests.h"

namespace gpuyard::cli::slurm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// A line of sinfo 22.05.
std::string sinfo_line(const std::string& host, const std::string& state, const std::string& gres,
                       const std::string& used, const std::string& reason = "none") {
  return fixed_line(nodes_query().back(), {{"NodeHost", host},
                                           {"StateComplete", state},
                                           {"Gres", gres},
                                           {"GresUsed", used},
                                           {"Reason", reason}});
}

ClaimOptions gpus_of_model(int gpus, const std::string& model = "") {
  ClaimOptions wanted;
  wanted.request.gpus = gpus;
  if (!model.empty()) wanted.request.model = model;
  return wanted;
}

ClusterFree free_with(const std::string& sinfo, const ClaimOptions& wanted) {
  auto answer = parse_free(sinfo, wanted);
  EXPECT_TRUE(answer);
  return answer ? *answer : ClusterFree();
}

const std::string kTwoNodes = sinfo_line("n1", "mixed", "gpu:h100:2,gpu:h100_nvl:2",
                                         "gpu:h100:2(IDX:0-1),gpu:h100_nvl:1(IDX:2)") +
                              sinfo_line("n2", "allocated+drain", "gpu:h100:2,gpu:h100_nvl:2",
                                         "gpu:h100:0(IDX:N/A),gpu:h100_nvl:0(IDX:N/A)", "bad fan");

TEST(ClusterFree, DrainedNodeHasNoFreeGpus) {
  const auto answer = free_with(kTwoNodes, gpus_of_model(1));
  EXPECT_TRUE(answer.enough);
  EXPECT_EQ(answer.capacity, 8);
  ASSERT_THAT(answer.nodes, SizeIs(2));
  EXPECT_TRUE(answer.nodes[0].available);
  EXPECT_EQ(answer.nodes[0].reason, "");
  EXPECT_EQ(answer.nodes[0].gpus.at(0).free, 0);
  EXPECT_EQ(answer.nodes[0].gpus.at(1).free, 1);
  EXPECT_FALSE(answer.nodes[1].available);
  EXPECT_EQ(answer.nodes[1].reason, "bad fan");
  for (const ClusterNodeGpus& gpus : answer.nodes[1].gpus) {
    EXPECT_FALSE(gpus.free);
    EXPECT_EQ(gpus.total, 2);
  }
}

TEST(ClusterFree, OnlyListedStatesAreAvailable) {
  for (const auto& [state, available] :
       {std::pair{"idle", true}, std::pair{"mixed", true}, std::pair{"allocated", true},
        std::pair{"idle+planned", true}, std::pair{"mixed+completing", true},
        std::pair{"idle+cloud", true}, std::pair{"down", false}, std::pair{"idle+drain", false},
        std::pair{"idle+not_responding", false}, std::pair{"unknown", false},
        std::pair{"idle+cloud+powered_down", false}, std::pair{"idle+maintenance", false},
        std::pair{"idle+reserved", false}, std::pair{"idle+future_flag", false},
        std::pair{"mixed+fail", false}, std::pair{"future", false}}) {
    const auto answer =
        free_with(sinfo_line("n1", state, "gpu:4", "gpu:0(IDX:N/A)"), gpus_of_model(4));
    EXPECT_EQ(answer.enough, available) << state;
    EXPECT_EQ(answer.nodes.at(0).available, available) << state;
    EXPECT_EQ(answer.nodes.at(0).gpus.at(0).free.has_value(), available) << state;
  }
}

TEST(ClusterFree, UnknownUseIsNotFree) {
  for (const char* const used : {"", "gpu:h100:0(IDX:N/A)", "gpu:2(IDX:0", "shard:0"}) {
    const auto answer = free_with(sinfo_line("n1", "idle", "gpu:4", used), gpus_of_model(1));
    EXPECT_FALSE(answer.enough) << used;
    EXPECT_FALSE(answer.nodes.at(0).gpus.at(0).free) << used;
  }
  const auto over = free_with(sinfo_line("n1", "mixed", "gpu:4", "gpu:5"), gpus_of_model(1));
  EXPECT_EQ(over.nodes.at(0).gpus.at(0).free, 0);
}

TEST(ClusterFree, RequestIsForOneNode) {
  const std::string sinfo =
      sinfo_line("n1", "idle", "gpu:2", "gpu:0") + sinfo_line("n2", "mixed", "gpu:4", "gpu:1");
  EXPECT_TRUE(free_with(sinfo, gpus_of_model(3)).enough);
  const auto few = free_with(sinfo, gpus_of_model(4));
  EXPECT_FALSE(few.enough);
  EXPECT_EQ(few.why, "the node with the most, n2, has 3 GPUs without a job");
}

TEST(ClusterFree, ModelSelectsTypes) {
  const auto nvl = free_with(kTwoNodes, gpus_of_model(1, "H100 NVL"));
  ASSERT_THAT(nvl.nodes, SizeIs(2));
  EXPECT_THAT(nvl.nodes[0].gpus, SizeIs(1));
  EXPECT_EQ(nvl.capacity, 4);
  EXPECT_TRUE(nvl.enough);
  EXPECT_FALSE(free_with(kTwoNodes, gpus_of_model(1, "h100")).enough);
  const auto none = parse_free(kTwoNodes, gpus_of_model(1, "a100"));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::not_found);
  EXPECT_EQ(none.error().cause, "its types are h100, h100_nvl");
}

TEST(ClusterFree, ModelRequestIsNotSplitOverTypes) {
  const std::string sinfo =
      sinfo_line("n1", "idle", "gpu:h100:2,gpu:h100_nvl:2", "gpu:h100:0,gpu:h100_nvl:0");
  EXPECT_TRUE(free_with(sinfo, gpus_of_model(4)).enough);
  EXPECT_FALSE(free_with(sinfo, gpus_of_model(4, "100")).enough);
}

TEST(ClusterFree, NodeInTwoPartitionsCountsOnce) {
  const std::string line = sinfo_line("n1", "idle", "gpu:2", "gpu:0");
  EXPECT_EQ(free_with(line + line, gpus_of_model(1)).capacity, 2);
}

TEST(ClusterFree, RepeatedGresTypeIsSummed) {
  const auto answer =
      free_with(sinfo_line("n1", "mixed", "gpu:a100:2(S:0),gpu:a100:2(S:1)", "gpu:a100:3(IDX:0-2)"),
                gpus_of_model(1));
  ASSERT_THAT(answer.nodes.at(0).gpus, SizeIs(1));
  EXPECT_EQ(answer.nodes[0].gpus[0].free, 1);
}

TEST(ClusterFree, NodesWithoutGpusAreLeftOut) {
  const auto answer = free_with(sinfo_line("n1", "idle", "(null)", "(null)"), gpus_of_model(1));
  EXPECT_THAT(answer.nodes, IsEmpty());
  EXPECT_FALSE(answer.enough);
  EXPECT_FALSE(free_with("", gpus_of_model(1)).enough);
}

TEST(ClusterFree, MalformedLinesAreReported) {
  const auto answer = free_with(kTwoNodes + "sinfo says more\n" +
                                    sinfo_line("n3", "idle", "gpu:" + std::string(300, 'x'), ""),
                                gpus_of_model(1));
  EXPECT_THAT(answer.nodes, SizeIs(2));
  EXPECT_THAT(answer.notes, ElementsAre("2 lines of sinfo could not be read."));
  const auto none = parse_free("NODELIST STATE\n", gpus_of_model(1));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::unavailable);
}

}  // namespace
}  // namespace gpuyard::cli::slurm
