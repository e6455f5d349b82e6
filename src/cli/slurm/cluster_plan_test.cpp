#include "cli/slurm/cluster_plan.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/golden_for_tests.h"
#include "cli/slurm/inventories_for_tests.h"

namespace gpuyard::cli::slurm {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr const char* kH100 = "NVIDIA H100 80GB HBM3";

PlannedHost lab(const std::string& name) {
  PlannedHost host = host_with(name, {}, 515'672);
  add_gpus(host, kH100, 8);
  return host;
}
ClusterSpec three_labs() {
  return {{lab("lab1"), lab("lab2"), lab("lab3")}, "lab1"};
}

std::string file_of(const ClusterPlan& plan, const std::string& name) {
  const auto found = std::ranges::find(plan.files, name, &ClusterFile::name);
  return found == plan.files.end() ? "" : found->text;
}
std::vector<std::string> messages_of(const ClusterPlan& plan) {
  EXPECT_THAT(plan.files, IsEmpty()) << "a plan with a problem";
  std::vector<std::string> messages;
  for (const Error& problem : plan.problems) {
    messages.push_back(problem.message);
    EXPECT_NE(problem.hint, "") << problem.message;
  }
  return messages;
}
// The messages after a change of lab2.
template <class Change>
std::vector<std::string> messages_with(Change&& change) {
  ClusterSpec spec = three_labs();
  change(spec.hosts[1]);
  return messages_of(plan_cluster(spec));
}

TEST(ClusterPlan, NodeHasItsProcessorsMemoryAndGpus) {
  EXPECT_THAT(file_of(plan_cluster(three_labs()), "slurm.conf"),
              HasSubstr("\nNodeName=lab2 CPUs=32 Sockets=2 CoresPerSocket=8 ThreadsPerCore=2 "
                        "RealMemory=505358 Gres=gpu:h100:8\n"));
}

TEST(ClusterPlan, GpusHaveTheCoresOfTheirSocket) {
  EXPECT_THAT(file_of(plan_cluster(three_labs()), "gres.conf"),
              HasSubstr("\nNodeName=lab2 Name=gpu Type=h100 File=/dev/nvidia[0-3] Cores=0-7\n"
                        "NodeName=lab2 Name=gpu Type=h100 File=/dev/nvidia[4-7] Cores=8-15\n"));
}

// 8 GPUs and 16 cores of two threads.
TEST(ClusterPlan, GpuHasItsShareOfCoresAndMemory) {
  EXPECT_THAT(file_of(plan_cluster(three_labs()), "slurm.conf"),
              HasSubstr("\nDefCpuPerGPU=4\nDefMemPerGPU=63169\n"));
}

// Slurm allocates whole cores: 3 of 28 CPUs would be 2 cores, too many for 8 GPUs.
TEST(ClusterPlan, CpuShareIsMultipleOfThreadsPerCore) {
  PlannedHost host = host_with("lab1", {2, 7, 2}, 100'000);
  add_gpus(host, kH100, 8);
  EXPECT_THAT(file_of(plan_cluster({{host}, "lab1"}), "slurm.conf"),
              HasSubstr("\nDefCpuPerGPU=2\n"));
}

TEST(ClusterPlan, ShareIsSmallestOfAllNodes) {
  ClusterSpec spec = three_labs();
  spec.hosts[2] = host_with("lab3", {1, 4, 1}, 1'000);
  add_gpus(spec.hosts[2], kH100, 2);
  EXPECT_THAT(file_of(plan_cluster(spec), "slurm.conf"),
              HasSubstr("\nDefCpuPerGPU=2\nDefMemPerGPU=490\n"));
}

TEST(ClusterPlan, GpusAreSortedByMinorNumber) {
  PlannedHost host = host_with("lab1", {1, 4, 1}, 1'000);
  add_gpus(host, kH100, 4);
  for (const std::size_t i : {0U, 1U, 2U, 3U}) {
    host.inventory.gpus[i].minor = static_cast<std::int64_t>(5 - i);
  }
  host.inventory.gpus[1].minor = 9;
  EXPECT_THAT(file_of(plan_cluster({{host}, "lab1"}), "gres.conf"),
              AllOf(HasSubstr("File=/dev/nvidia[2-3]\n"), HasSubstr("File=/dev/nvidia5\n"),
                    HasSubstr("File=/dev/nvidia9\n")));
}

TEST(ClusterPlan, ModelsOfAMachineHaveTheirOwnCounts) {
  PlannedHost host = host_with("lab1", {1, 8, 1}, 1'000);
  add_gpus(host, kH100, 1);
  add_gpus(host, "NVIDIA L4", 2);
  const ClusterPlan plan = plan_cluster({{host}, "lab1"});
  EXPECT_THAT(file_of(plan, "slurm.conf"), HasSubstr("Gres=gpu:h100:1,gpu:l4:2\n"));
  EXPECT_THAT(plan.notes, testing::Contains("NVIDIA L4 is Type=l4"));
}

TEST(ClusterPlan, UnknownNumaNodeHasNoCores) {
  ClusterSpec spec = three_labs();
  for (protocol::HostGpu& gpu : spec.hosts[0].inventory.gpus) gpu.numa_node.reset();
  EXPECT_THAT(file_of(plan_cluster(spec), "gres.conf"),
              HasSubstr("\nNodeName=lab1 Name=gpu Type=h100 File=/dev/nvidia[0-7]\n"));
}

TEST(ClusterPlan, UnknownLayoutHasCpusAlone) {
  ClusterSpec spec = three_labs();
  spec.hosts[0].inventory.machine.threads_per_core.reset();
  const ClusterPlan plan = plan_cluster(spec);
  EXPECT_THAT(file_of(plan, "slurm.conf"), HasSubstr("\nNodeName=lab1 CPUs=32 RealMemory="));
  EXPECT_THAT(file_of(plan, "gres.conf"), HasSubstr("NodeName=lab1 Name=gpu Type=h100 "
                                                    "File=/dev/nvidia[0-7]\n"));
  EXPECT_THAT(plan.notes, testing::Contains(HasSubstr("each CPU counts as a core")));
}

// A daemon that reports numbers which do not agree.
TEST(ClusterPlan, ContradictoryLayoutIsUnknown) {
  ClusterSpec spec = three_labs();
  spec.hosts[0].inventory.machine.cores_per_socket = 9;
  EXPECT_THAT(file_of(plan_cluster(spec), "slurm.conf"),
              HasSubstr("\nNodeName=lab1 CPUs=32 RealMemory="));
}

TEST(ClusterPlan, GpuInMigModeIsExcludedWithRemark) {
  ClusterSpec spec = three_labs();
  spec.hosts[1].inventory.gpus[3].mig_enabled = true;
  const ClusterPlan plan = plan_cluster(spec);
  EXPECT_THAT(file_of(plan, "slurm.conf"), HasSubstr("RealMemory=505358 Gres=gpu:h100:7\n"));
  EXPECT_THAT(file_of(plan, "gres.conf"),
              AllOf(HasSubstr("\n# Left out: GPU 3 (NVIDIA H100 80GB HBM3) of lab2"),
                    HasSubstr("\nNodeName=lab2 Name=gpu Type=h100 File=/dev/nvidia[0-2] ")));
  EXPECT_THAT(plan.notes, testing::Contains(HasSubstr("left out: GPU 3")));
  EXPECT_THAT(file_of(plan, "README.md"), HasSubstr("left out: GPU 3"));
}

TEST(ClusterPlan, MachineWithoutGpusIsANodeWithoutGres) {
  ClusterSpec spec = three_labs();
  spec.hosts[0].inventory.gpus.clear();
  const ClusterPlan plan = plan_cluster(spec);
  EXPECT_THAT(file_of(plan, "slurm.conf"), HasSubstr("NodeName=lab1 CPUs=32 Sockets=2 "
                                                     "CoresPerSocket=8 ThreadsPerCore=2 "
                                                     "RealMemory=505358\n"));
  EXPECT_THAT(file_of(plan, "gres.conf"), Not(HasSubstr("lab1")));
}

TEST(ClusterPlan, WithoutAccountingIsFirstComeFirstServed) {
  const ClusterPlan plan = plan_cluster(three_labs());
  EXPECT_THAT(file_of(plan, "slurm.conf"),
              AllOf(HasSubstr("\nPriorityType=priority/basic\n"), Not(HasSubstr("slurmdbd\n")),
                    HasSubstr("\n# EpilogSlurmctld="), Not(HasSubstr("TRES"))));
  EXPECT_EQ(file_of(plan, "slurmdbd.conf"), "");
  EXPECT_THAT(file_of(plan, "README.md"), HasSubstr("Fair share between users needs accounting"));
}

TEST(ClusterPlan, WithAccountingSharesByGpuTime) {
  ClusterSpec spec = three_labs();
  spec.accounting = true;
  const ClusterPlan plan = plan_cluster(spec);
  EXPECT_THAT(file_of(plan, "slurm.conf"),
              AllOf(HasSubstr("\nPriorityType=priority/multifactor\n"),
                    HasSubstr("\nAccountingStorageTRES=gres/gpu\n"),
                    HasSubstr("\nEpilogSlurmctld="), HasSubstr(" TRESBillingWeights=")));
  EXPECT_THAT(file_of(plan, "slurmdbd.conf"), HasSubstr("\nDbdHost=lab1\n"));
  EXPECT_THAT(file_of(plan, "README.md"), HasSubstr("sacctmgr -i add cluster cluster\n"));
}

TEST(ClusterPlan, HostMayBeUrl) {
  ClusterSpec spec = three_labs();
  spec.hosts[0].name = "ssh://alice@10.0.0.7";
  spec.hosts[1].name = "lab2.example.org";
  spec.controller = "ssh://alice@10.0.0.7";
  EXPECT_THAT(file_of(plan_cluster(spec), "slurm.conf"), HasSubstr("\nSlurmctldHost=lab1\n"));
}

TEST(ClusterPlan, NoMachinesAreRefused) {
  EXPECT_THAT(messages_of(plan_cluster({{}, "lab1"})), ElementsAre("no machines given"));
}

TEST(ClusterPlan, ControllerIsOneOfTheMachines) {
  ClusterSpec spec = three_labs();
  spec.controller = "lab9";
  EXPECT_THAT(messages_of(plan_cluster(spec)),
              ElementsAre("--controller: \"lab9\" is not one of the machines lab1, lab2, lab3"));
}

TEST(ClusterPlan, TwoMachinesOfOneNameAreRefused) {
  ClusterSpec spec = three_labs();
  spec.hosts[1].name = "https://10.0.0.2";
  spec.hosts[1].inventory.machine.hostname = "lab1";
  EXPECT_THAT(messages_of(plan_cluster(spec)),
              ElementsAre("lab1 and https://10.0.0.2 have the same host name, lab1"));
}

TEST(ClusterPlan, OtherHostNameIsRefused) {
  EXPECT_THAT(messages_with([](PlannedHost& host) { host.inventory.machine.hostname = "dgx"; }),
              ElementsAre("lab2: the machine calls itself dgx"));
  EXPECT_THAT(messages_with([](PlannedHost& host) { host.inventory.machine.hostname.reset(); }),
              ElementsAre("lab2: the machine has no host name"));
}

TEST(ClusterPlan, HostNameOfContainerIsRefused) {
  ClusterSpec spec = three_labs();
  spec.hosts[1].inventory.machine.hostname = "3f2a9c41d07b";
  spec.hosts[1].inventory.machine.in_container = true;
  const ClusterPlan plan = plan_cluster(spec);
  ASSERT_THAT(messages_of(plan), ElementsAre("lab2: the machine calls itself 3f2a9c41d07b"));
  EXPECT_THAT(plan.problems[0].cause, HasSubstr("runs in a container"));
  EXPECT_THAT(plan.problems[0].hint, HasSubstr("--uts=host"));
}

TEST(ClusterPlan, DaemonInContainerIsNoted) {
  ClusterSpec spec = three_labs();
  spec.hosts[1].inventory.machine.in_container = true;
  const auto is_noted = testing::Contains(HasSubstr("lab2: its daemon runs in a container"));
  EXPECT_THAT(plan_cluster(spec).notes, is_noted);
  spec.hosts[1].inventory.machine.in_container = std::nullopt;
  EXPECT_THAT(plan_cluster(spec).notes, Not(is_noted));
}

// The name comes from another machine's daemon.
TEST(ClusterPlan, InvalidNodeNameIsRefused) {
  for (const char* const name : {"lab2\nProlog=/tmp/x", "lab[1-9]", "a,b", "DEFAULT", "-x", ""}) {
    EXPECT_THAT(messages_with([&](PlannedHost& host) {
                  host.name = "ssh://10.0.0.2";
                  host.inventory.machine.hostname = name;
                }),
                ElementsAre(HasSubstr("cannot be a node of Slurm")))
        << name;
  }
}

TEST(ClusterPlan, UnknownProcessorsOrMemoryAreRefused) {
  EXPECT_THAT(
      messages_with([](PlannedHost& host) {
        host.inventory.machine.cpus.reset();
        host.inventory.machine.memory_mib.reset();
      }),
      ElementsAre("lab2: the number of its CPUs is unknown", "lab2: its memory is unknown"));
}

TEST(ClusterPlan, MissingDriverIsRefused) {
  EXPECT_THAT(messages_with([](PlannedHost& host) {
                host.inventory.driver_error = "Driver Not Loaded";
                host.inventory.gpus.clear();
              }),
              ElementsAre("lab2: no driver: Driver Not Loaded"));
}

TEST(ClusterPlan, LostOrUnknownGpusAreRefused) {
  EXPECT_THAT(
      messages_with([](PlannedHost& host) {
        host.inventory.gpus[1].lost = "GPU is lost";
        host.inventory.gpus[2].minor.reset();
        host.inventory.gpus[3].name.clear();
        host.inventory.gpus[4].mig_enabled.reset();
        host.inventory.gpus[6].minor = 5;
      }),
      ElementsAre("lab2: GPU 1 is lost: GPU is lost",
                  "lab2: GPU 2: the number of its device file is unknown",
                  "lab2: GPU 3: its model is unknown", "lab2: GPU 4: its MIG mode is unknown",
                  "lab2: GPU 6: another GPU has its device file /dev/nvidia5"));
}

TEST(ClusterPlan, NoGpuForSlurmIsRefused) {
  PlannedHost host = host_with("lab1", {}, 1'000);
  EXPECT_THAT(messages_of(plan_cluster({{host}, "lab1"})),
              ElementsAre("the machines have no GPUs for Slurm"));
}

TEST(ClusterPlan, OtherVersionsOfSlurmAreNoted) {
  ClusterSpec spec = three_labs();
  spec.hosts[0].inventory.machine.slurm_version = "22.05.8";
  EXPECT_THAT(plan_cluster(spec).notes, SizeIs(1)) << "the type alone";
  spec.hosts[1].inventory.machine.slurm_version = "24.05.1";
  EXPECT_THAT(plan_cluster(spec).notes,
              testing::Contains(HasSubstr("different versions of Slurm: 22.05.8, 24.05.1")));
}

TEST(RangeText, JoinsNeighbours) {
  EXPECT_EQ(range_text({}), "");
  EXPECT_EQ(range_text({3}), "3");
  EXPECT_EQ(range_text({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
}

std::string section_of(const std::string& title, const ClusterSpec& spec) {
  const ClusterPlan plan = plan_cluster(spec);
  EXPECT_THAT(plan.problems, IsEmpty());
  std::string text = fmt::format("\n## {}\n", title);
  for (const ClusterFile& file : plan.files) {
    text += fmt::format("\n### `{}`\n\n````\n{}````\n", file.name, file.text);
  }
  return text;
}

TEST(ClusterPlan, FilesOfTwoLabsMatchDocument) {
  PlannedHost big = host_with("big", {4, 16, 2}, 1'031'542);
  add_gpus(big, "NVIDIA A100-SXM4-80GB", 4);
  add_gpus(big, "NVIDIA A100-PCIE-40GB", 2);
  add_gpus(big, "NVIDIA L40S", 2);
  big.inventory.gpus[5].mig_enabled = true;
  expect_document("slurm_plan.md",
                  "# The files of `gpuyard slurm plan`\n\n"
                  "Written by `GPUYARD_WRITE_GOLDEN=1 cli_test`; the test compares this file with "
                  "two plans. [slurm.md](slurm.md) says how to make one.\n" +
                      section_of("Three machines with one model", three_labs()) +
                      section_of("One machine with four sockets and three models, with accounting",
                                 {{big}, "big", true}));
}

}  // namespace
}  // namespace gpuyard::cli::slurm
