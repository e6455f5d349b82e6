#include "cli/slurm/plan_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/slurm/inventories_for_tests.h"

namespace gpuyard::cli::slurm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::string_view kConf =
    "ClusterName=cluster\n"
    "NodeName=lab1 CPUs=32 Sockets=2 CoresPerSocket=8 ThreadsPerCore=2 RealMemory=98000 "
    "Gres=gpu:h100:4\n"
    "NodeName=lab2 CPUs=1\n";

PlannedHost lab1() {
  PlannedHost host = host_with("lab1", {}, 100'000);
  add_gpus(host, "NVIDIA H100 80GB HBM3", 4);
  return host;
}
SlurmdReport report() {
  return {
      "NodeName=lab1 CPUs=32 Boards=1 SocketsPerBoard=2 CoresPerSocket=8 ThreadsPerCore=2 "
      "RealMemory=99999\nUpTime=0-00:10:00\n",
      "slurmd: Gres Name=gpu Type=h100 Count=2 Index=0 ID=7696487 File=/dev/nvidia[0-1] "
      "Cores=0-7 CoreCnt=16 (null)\n"
      "slurmd: Gres Name=gpu Type=h100 Count=2 Index=2 ID=7696487 File=/dev/nvidia[2-3] "
      "Cores=8-15 CoreCnt=16 (null)\n"};
}

std::vector<std::string> texts_of(const std::vector<Difference>& found) {
  std::vector<std::string> texts;
  for (const Difference& one : found) {
    texts.push_back(one.file + ": " + one.problem + (one.line.empty() ? "" : " -> " + one.line));
  }
  return texts;
}
std::vector<std::string> differences(const PlannedHost& host, const SlurmdReport& slurmd,
                                     std::string_view conf = kConf) {
  return texts_of(differences_of(host, conf, slurmd));
}

TEST(PlanCheck, EqualMachineHasNoDifference) {
  EXPECT_THAT(differences(lab1(), report()), IsEmpty());
}

TEST(PlanCheck, OtherProcessorsCorrectTheLine) {
  SlurmdReport slurmd = report();
  slurmd.hardware =
      "NodeName=lab1 CPUs=16 Boards=1 SocketsPerBoard=2 CoresPerSocket=8 ThreadsPerCore=1 "
      "RealMemory=99999\n";
  EXPECT_THAT(differences(lab1(), slurmd),
              ElementsAre("slurm.conf: CPUs=32, but slurmd finds 16; ThreadsPerCore=2, but slurmd "
                          "finds 1 -> NodeName=lab1 CPUs=16 Sockets=2 CoresPerSocket=8 "
                          "ThreadsPerCore=1 RealMemory=98000 Gres=gpu:h100:4"));
}

TEST(PlanCheck, LessMemoryCorrectsTheLine) {
  SlurmdReport slurmd = report();
  slurmd.hardware = "NodeName=lab1 RealMemory=50000\n";
  EXPECT_THAT(differences(lab1(), slurmd),
              ElementsAre("slurm.conf: RealMemory=98000, but slurmd finds 50000 -> NodeName=lab1 "
                          "CPUs=32 Sockets=2 CoresPerSocket=8 ThreadsPerCore=2 RealMemory=50000 "
                          "Gres=gpu:h100:4"));
}

TEST(PlanCheck, NewGpuIsMissingInBothFiles) {
  PlannedHost host = lab1();
  add_gpus(host, "NVIDIA L4", 1);
  EXPECT_THAT(differences(host, report()),
              ElementsAre("slurm.conf: Gres=gpu:h100:4, but the driver has gpu:h100:4,gpu:l4:1 -> "
                          "NodeName=lab1 CPUs=32 Sockets=2 CoresPerSocket=8 ThreadsPerCore=2 "
                          "RealMemory=98000 Gres=gpu:h100:4,gpu:l4:1",
                          "gres.conf: /dev/nvidia4 is missing -> NodeName=lab1 Name=gpu Type=l4 "
                          "File=/dev/nvidia4 Cores=0-7"));
}

TEST(PlanCheck, RemovedGpuIsInBothFiles) {
  PlannedHost host = lab1();
  host.inventory.gpus.pop_back();
  EXPECT_THAT(differences(host, report()),
              ElementsAre("slurm.conf: Gres=gpu:h100:4, but the driver has gpu:h100:3 -> "
                          "NodeName=lab1 CPUs=32 Sockets=2 CoresPerSocket=8 ThreadsPerCore=2 "
                          "RealMemory=98000 Gres=gpu:h100:3",
                          "gres.conf: /dev/nvidia3 has no GPU in the driver"));
}

TEST(PlanCheck, GpuInMigModeIsNamed) {
  PlannedHost host = lab1();
  host.inventory.gpus[3].mig_enabled = true;
  EXPECT_THAT(differences(host, report()),
              testing::Contains("gres.conf: /dev/nvidia3 is a GPU in MIG mode"));
}

TEST(PlanCheck, OtherCoresCorrectTheLine) {
  PlannedHost host = lab1();
  host.inventory.gpus[1].numa_node = 1;
  EXPECT_THAT(differences(host, report()),
              ElementsAre("gres.conf: /dev/nvidia1 has Cores=0-7, but the driver and the kernel "
                          "report Cores=8-15 -> NodeName=lab1 Name=gpu Type=h100 "
                          "File=/dev/nvidia1 Cores=8-15"));
}

TEST(PlanCheck, MissingNodeHasTheLineThatSlurmdPrints) {
  EXPECT_THAT(differences(lab1(), report(), "NodeName=lab2 CPUs=1\n"),
              ElementsAre("slurm.conf: it has no line NodeName=lab1 -> NodeName=lab1 CPUs=32 "
                          "Boards=1 SocketsPerBoard=2 CoresPerSocket=8 ThreadsPerCore=2 "
                          "RealMemory=99999"));
}

}  // namespace
}  // namespace gpuyard::cli::slurm
