#include "cli/slurm/node.h"

#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuyard::cli::slurm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

protocol::SlurmNode node_with(unsigned gpus) {
  protocol::SlurmNode node;
  for (unsigned i = 0; i < gpus; ++i) {
    protocol::SlurmGpu gpu;
    gpu.index = i;
    gpu.minor = static_cast<std::int64_t>(i);
    node.gpus.push_back(gpu);
  }
  return node;
}

TEST(SlurmNode, ReasonNamesGpuFaultAndAdvice) {
  auto node = node_with(4);
  EXPECT_EQ(drain_reason(node, {0, 1, 2, 3}), "");
  EXPECT_EQ(drain_reason(node, {}), "") << "what Slurm hands out is not known";
  node.gpus[2].rule = "xid-fatal";
  node.gpus[2].why = "GPU 2: Xid 79.";
  node.gpus[2].advice = "Reset it.";
  EXPECT_EQ(drain_reason(node, {0, 1, 2, 3}),
            "gpuyard: GPU 2: Xid 79. Reset it. (3 of 4 GPUs are healthy)");
  node.gpus[3].rule = "xid-fatal";
  EXPECT_EQ(
      drain_reason(node, {0, 1, 2, 3}),
      "gpuyard: GPU 2: Xid 79. Reset it. The same applies to GPU 3. (2 of 4 GPUs are healthy)");
}

TEST(SlurmNode, GpuOutsideSlurmGivesNoReason) {
  auto node = node_with(3);
  node.gpus[2].rule = "memory";
  node.gpus[2].why = "GPU 2: Xid 79.";
  EXPECT_EQ(drain_reason(node, {0, 1}), "");
  node.gpus[2].minor.reset();
  EXPECT_THAT(drain_reason(node, {0, 1}), HasSubstr("Xid 79")) << "it may be one of them";
}

TEST(SlurmNode, SlurmGpuMissingFromDriverGivesReason) {
  auto node = node_with(3);
  EXPECT_THAT(drain_reason(node, {0, 1, 2, 3}), HasSubstr("/dev/nvidia3"));
  EXPECT_EQ(drain_reason(node, {0, 1}), "") << "it need not hand out all";
  EXPECT_EQ(drain_reason(node, {0, kNoGpu}), "") << "an instance of MIG";
  node.gpus[1].minor.reset();
  EXPECT_EQ(drain_reason(node, {0, 1, 2, 3}), "") << "which one it is, is not known";
  node.driver_error = "not asked yet";
  node.gpus.clear();
  EXPECT_EQ(drain_reason(node, {0, 1}), "") << "it may come yet";
  node.driver_down = true;
  EXPECT_EQ(drain_reason(node, {0, 1}), "gpuyard: no driver: not asked yet");
  EXPECT_EQ(drain_reason(node, {}), "") << "a node without GPUs needs no driver";
}

TEST(SlurmNode, JobLeftoverGivesReasonAfterExitGrace) {
  auto node = node_with(1);
  protocol::SlurmJob job;
  job.job = "17";
  job.user = "alice";
  job.left = "PID 4711 (python) still uses GPU-0";
  job.draining_s = 0.5;
  node.jobs = {job};
  EXPECT_EQ(drain_reason(node, {0}), "");
  node.jobs[0].draining_s = 2.5;
  EXPECT_EQ(drain_reason(node, {0}),
            "gpuyard: job 17 of alice has ended, but PID 4711 (python) still uses GPU-0");
}

TEST(SlurmNode, OnlyOwnDrainIsChangedOrResumed) {
  constexpr const char* kReason = "gpuyard: GPU 2: Xid 79";
  struct Case {
    NodeState now;
    const char* reason;
    bool refused;
    NodeAction step;
  };
  for (const auto& [now, reason, refused, step] : {
           Case{{"idle", "none"}, "", false, NodeAction::nothing},
           Case{{"idle", "none"}, kReason, false, NodeAction::drain},
           Case{{"mixed+not_responding", "none"}, kReason, false, NodeAction::drain},
           Case{{"idle+drain", kReason}, kReason, false, NodeAction::nothing},
           Case{{"mixed+drain", "gpuyard: another"}, kReason, false, NodeAction::drain},
           Case{{"idle+drain", "Prolog error"}, kReason, true, NodeAction::drain},
           Case{{"idle+drain", "Prolog error"}, kReason, false, NodeAction::nothing},
           Case{{"idle+drain", "Prolog error"}, "", true, NodeAction::nothing},
           Case{{"idle+drain", "Epilog error"}, kReason, true, NodeAction::nothing},
           Case{{"idle+drain", kReason}, "", false, NodeAction::resume},
           Case{{"idle+drain+not_responding", kReason}, "", false, NodeAction::resume},
           Case{{"idle+drain", "new fan"}, "", false, NodeAction::nothing},
           Case{{"idle+drain", "new fan"}, kReason, false, NodeAction::nothing},
           Case{{"down+not_responding", "Not responding"}, kReason, false, NodeAction::nothing},
           Case{{"down+drain", kReason}, "", false, NodeAction::nothing},
           Case{{"idle+fail", "bad fan"}, kReason, false, NodeAction::nothing},
           Case{{"idle+drain+reboot_requested", kReason}, "", false, NodeAction::nothing},
           Case{{"inval+drain", "gres/gpu count too low"}, kReason, false, NodeAction::nothing},
           Case{{"idle", kReason}, "", false, NodeAction::nothing},
       }) {
    EXPECT_EQ(action_for(now, reason, refused), step)
        << now.flags << " " << now.reason << " / " << reason;
  }
  EXPECT_TRUE(has_own_reason({"idle", "none"}, NodeAction::drain));
  EXPECT_TRUE(has_own_reason({"idle+drain", kReason}, NodeAction::nothing));
  EXPECT_FALSE(has_own_reason({"idle+drain", "new fan"}, NodeAction::nothing));
}

TEST(SlurmController, WithoutAPathOnlyTrustedFoldersAreUsed) {
  const std::string before = std::getenv("PATH");
  for (const char* const path : {"", ".", "bin:"}) {
    ::setenv("PATH", path, 1);
    extend_path();
    EXPECT_EQ(std::getenv("PATH"), fmt::format("{}", fmt::join(trusted_default_folders(), ":")));
  }
  ::setenv("PATH", "/slurm/bin:.", 1);
  extend_path();
  EXPECT_THAT(std::getenv("PATH"), testing::StartsWith("/slurm/bin:/"));
  ::setenv("PATH", before.c_str(), 1);
}

TEST(SlurmController, ReadsALineOfSinfo) {
  const auto line = [](const std::string& flags, const std::string& reason) {
    return fmt::format("{:<{}}{}   \n", flags, kFlagsWidth, reason);
  };
  EXPECT_EQ(parse_node_state(line("mixed", "none"))->flags, "mixed");
  EXPECT_EQ(parse_node_state(line("idle+drain", "gpuyard: a | b"))->reason, "gpuyard: a | b");
  EXPECT_TRUE(parse_node_state(line("idle+drain", "x"))->is_drained());
  EXPECT_FALSE(parse_node_state(line("idle+planned", "x"))->is_drained());
  EXPECT_FALSE(parse_node_state(""));
  EXPECT_FALSE(parse_node_state("sinfo: error: no controller"));
}

TEST(SlurmController, ReadsDevicesInTheOrderThatSlurmCountsThem) {
  EXPECT_THAT(parse_minors("slurmd: Gres Name=gpu Type=(null) Count=4 Index=0 ID=7696487 "
                           "File=/dev/nvidia[0-3] (null)\n"),
              ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(
      parse_minors("slurmd: Gres Name=gpu Type=a Count=1 Index=3 ID=7 File=/dev/nvidia3 "
                   "Cores=0-3 CoreCnt=8 (null)\n"
                   "slurmd: Gres Name=shard Type=a Count=2 Index=0 ID=1 File=/dev/nvidia0\n"
                   "slurmd: debug2: Gres Name\n"
                   "slurmd: Gres Name=gpu Type=b Count=3 ID=7 File=/dev/nvidia[5,1-2] (null)"),
      ElementsAre(3, 5, 1, 2));
  EXPECT_THAT(
      parse_minors("slurmd: Gres Name=gpu Count=2 ID=7 File=/dev/nvidia0,/dev/nvidia1 (null)"),
      ElementsAre(0, 1));
  EXPECT_THAT(parse_minors("slurmd: Gres Name=gpu Type=a Count=1 ID=7 File=/dev/nvidia4 (null)\n"
                           "slurmd: Gres Name=gpu Type=m Count=2 ID=7 "
                           "File=/dev/nvidia-caps/nvidia-cap[12,15] (null)\n"
                           "slurmd: Gres Name=gpu Type=a Count=1 ID=7 File=/dev/nvidia5 (null)"),
              ElementsAre(4, kNoGpu, kNoGpu, 5))
      << "an instance of MIG has a place, too";
  EXPECT_THAT(parse_minors("slurmd: Can not stat gres.conf file, using slurm.conf data\n"),
              IsEmpty());
  EXPECT_THAT(parse_minors("slurmd: Gres Name=gpu Count=1 "
                           "File=/dev/nvidia[9223372036854775806-9223372036854775807] (null)\n"),
              ElementsAre(kNoGpu));
  EXPECT_THAT(
      parse_minors("slurmd: Gres Name=gpu Count=1 File=/dev/x[9999999999999999999] (null)\n"),
      ElementsAre(kNoGpu));
}

}  // namespace
}  // namespace gpuyard::cli::slurm
