#include "cli/read/machine_facts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/scratch_directory_for_tests.h"

namespace gpuyard::cli {
namespace {

class MachineFactsTest : public testing::Test {
 protected:
  const ScratchDirectory root_;
};

TEST_F(MachineFactsTest, EmptyRootHasNoFacts) {
  const MachineFacts facts = machine_facts(root_.path());
  EXPECT_FALSE(facts.in_container);
  EXPECT_EQ(facts.module_version, std::nullopt);
  EXPECT_TRUE(facts.closed_nodes.empty());
  EXPECT_EQ(facts.gpus_on_pci, 0U);
}

TEST_F(MachineFactsTest, KernelModuleVersionIsRead) {
  root_.write(
      "proc/driver/nvidia/version",
      "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC\n");
  EXPECT_EQ(machine_facts(root_.path()).module_version, "535.104.05");
}

TEST_F(MachineFactsTest, CountsGpusNotEveryNvidiaDevice) {
  root_.write("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
  root_.write("sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
  root_.write("sys/bus/pci/devices/0000:01:00.1/vendor", "0x10de\n");
  root_.write("sys/bus/pci/devices/0000:01:00.1/class", "0x040300\n");
  EXPECT_EQ(machine_facts(root_.path()).gpus_on_pci, 1U);
}

TEST_F(MachineFactsTest, EngineMarkMeansContainer) {
  root_.write(".dockerenv", "");
  EXPECT_TRUE(machine_facts(root_.path()).in_container);
}

std::string first_advice(std::string_view reason, const MachineFacts& facts) {
  return advice_for(reason, facts).front();
}

TEST(Advice, DoesNotSendAPodToDocker) {
  MachineFacts facts;
  facts.in_container = facts.in_pod = true;
  const std::string advice = first_advice("NVML Shared Library Not Found", facts);
  EXPECT_NE(advice.find("runtimeClassName"), std::string::npos) << advice;
  EXPECT_EQ(advice.find("docker"), std::string::npos) << advice;
}

TEST(Advice, KnowsWhyAContainerLosesItsGpus) {
  MachineFacts facts;
  facts.in_container = true;
  EXPECT_NE(first_advice("Insufficient Permissions", facts).find("daemon-reload"),
            std::string::npos);
}

TEST(Advice, WithoutALibraryDependsOnTheMachine) {
  const std::string_view reason = "NVML Shared Library Not Found";
  MachineFacts facts;
  EXPECT_NE(first_advice(reason, facts).find("No NVIDIA GPU found"), std::string::npos);
  facts.gpus_on_pci = 2;
  EXPECT_NE(first_advice(reason, facts).find("are 2 NVIDIA GPUs"), std::string::npos);
  facts.module_version = "535.1";
  EXPECT_NE(first_advice(reason, facts).find("535.1"), std::string::npos);
  facts.in_container = true;
  EXPECT_NE(first_advice(reason, facts).find("--gpus all"), std::string::npos);
}

TEST(Advice, KnowsTheOtherCauses) {
  MachineFacts facts;
  facts.closed_nodes = {"/dev/nvidia0", "/dev/nvidiactl"};
  EXPECT_NE(first_advice("Driver/library version mismatch", facts).find("reboot"),
            std::string::npos);
  EXPECT_NE(first_advice("Insufficient Permissions", facts).find("/dev/nvidia0, /dev/nvidiactl"),
            std::string::npos);
  EXPECT_NE(first_advice("/x.so: cannot open shared object file", facts).find("--nvml"),
            std::string::npos);
  EXPECT_NE(first_advice("Driver Not Loaded", facts).find("No NVIDIA GPU found"),
            std::string::npos);
  facts.gpus_on_pci = 1;
  EXPECT_NE(first_advice("Driver Not Loaded", facts).find("modprobe"), std::string::npos);
  MachineFacts in_a_world = facts;
  in_a_world.simulated_world = "/w";
  EXPECT_NE(first_advice("Driver Not Loaded", in_a_world).find("/w"), std::string::npos);
  EXPECT_NE(first_advice("Unknown Error", facts).find("dmesg"), std::string::npos);
}

}  // namespace
}  // namespace gpuyard::cli
