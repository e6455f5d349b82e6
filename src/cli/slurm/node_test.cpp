#include "cli/slurm/node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuyard::cli::slurm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

protocol::SlurmNode node_with(unsigned gpus) {
  protocol::SlurmNode node;
  for (unsigned i = 0; i < gpus; ++i) {
    protocol::SlurmGpu gpu;
    gpu.index = i;
    gpu.minor = i;
    node.gpus.push_back(gpu);
  }
  return node;
}

TEST(SlurmNode, AReasonNamesTheGpuWhatItHasAndWhatToDo) {
  auto node = node_with(4);
  EXPECT_EQ(reason_for(node, {0, 1, 2, 3}), "");
  EXPECT_EQ(reason_for(node, {}), "") << "what Slurm hands out is not known";
  node.gpus[2].rule = "xid-fatal";
  node.gpus[2].why = "GPU 2: Xid 79.";
  node.gpus[2].advice = "Reset it.";
  EXPECT_EQ(reason_for(node, {0, 1, 2, 3}),
            "gpuyard: GPU 2: Xid 79. Reset it. (3 of 4 GPUs are well)");
}

TEST(SlurmNode, AGpuThatSlurmHandsOutAndTheDriverHasNotIsAReason) {
  auto node = node_with(3);
  EXPECT_THAT(reason_for(node, {0, 1, 2, 3}), HasSubstr("/dev/nvidia3"));
  EXPECT_EQ(reason_for(node, {0, 1}), "") << "it need not hand out all";
  node.driver_error = "not asked yet";
  node.gpus.clear();
  EXPECT_EQ(reason_for(node, {0, 1}), "") << "it may come yet";
  node.driver_down = true;
  EXPECT_EQ(reason_for(node, {0, 1}), "gpuyard: no driver: not asked yet");
}

TEST(SlurmNode, WhatAJobLeftIsAReason) {
  auto node = node_with(1);
  protocol::SlurmJob job;
  job.job = "17";
  job.user = "alice";
  node.jobs = {job};
  EXPECT_EQ(reason_for(node, {0}), "");
  node.jobs[0].left = "pid 4711 (python) still uses GPU-0";
  EXPECT_EQ(reason_for(node, {0}),
            "gpuyard: job 17 of alice is over, and pid 4711 (python) still uses GPU-0");
}

TEST(SlurmNode, NobodyElsesDrainIsChangedOrUndone) {
  constexpr const char* kReason = "gpuyard: GPU 2: Xid 79";
  struct Case {
    NodeState now;
    const char* reason;
    Step step;
  };
  for (const auto& [now, reason, step] : {
           Case{{"idle", "none"}, "", Step::nothing},
           Case{{"idle", "none"}, kReason, Step::drain},
           Case{{"mixed*", "none"}, kReason, Step::drain},
           Case{{"drained", kReason}, kReason, Step::nothing},
           Case{{"draining", "gpuyard: another"}, kReason, Step::drain},
           Case{{"drained", "Prolog error"}, kReason, Step::drain},
           Case{{"drained", "Prolog error"}, "", Step::nothing},
           Case{{"drained", kReason}, "", Step::resume},
           Case{{"draining*", kReason}, "", Step::resume},
           Case{{"drained", "new fan"}, "", Step::nothing},
           Case{{"drained", "new fan"}, kReason, Step::nothing},
           Case{{"down*", "Not responding"}, kReason, Step::nothing},
           Case{{"idle", kReason}, "", Step::nothing},
       }) {
    EXPECT_EQ(step_for(now, reason), step) << now.state << " " << now.reason << " / " << reason;
  }
}

TEST(SlurmController, ReadsALineOfSinfo) {
  EXPECT_EQ(node_state_in("mixed|none\n")->state, "mixed");
  EXPECT_EQ(node_state_in("drained|gpuyard: a | b")->reason, "gpuyard: a | b");
  EXPECT_FALSE(node_state_in(""));
  EXPECT_FALSE(node_state_in("sinfo: error: no controller"));
}

TEST(SlurmController, ReadsDevicesInTheOrderThatSlurmCountsThem) {
  EXPECT_THAT(minors_in("slurmd: Gres Name=gpu Type=(null) Count=4 Index=0 ID=7696487 "
                        "File=/dev/nvidia[0-3] (null)\n"),
              ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(minors_in("slurmd: Gres Name=gpu Type=a Count=1 Index=3 ID=7 File=/dev/nvidia3 "
                        "Cores=0-3 CoreCnt=8 (null)\n"
                        "slurmd: Gres Name=shard Type=a Count=2 Index=0 ID=1 File=/dev/nvidia0\n"
                        "slurmd: debug2: Gres Name\n"
                        "slurmd: Gres Name=gpu Type=b Count=3 ID=7 File=/dev/nvidia[5,1-2] (null)"),
              ElementsAre(3, 5, 1, 2));
  EXPECT_THAT(minors_in("slurmd: Can not stat gres.conf file, using slurm.conf data\n"), IsEmpty());
  EXPECT_THAT(minors_in("slurmd: Gres Name=gpu File=/dev/x[9999999999999999999] (null)\n"),
              IsEmpty());
}

}  // namespace
}  // namespace gpuyard::cli::slurm
