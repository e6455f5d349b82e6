#include "daemon/machine_reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/scratch_directory_for_tests.h"

namespace gpuyard::daemon {
namespace {

using protocol::HostMachine;
using testing::ElementsAre;
using testing::IsEmpty;

// The files of a machine, as the kernel has them.
class MachineTree {
 public:
  void put(const std::string& path, const std::string& text) { root_.write(path, text + "\n"); }
  void put_cpu(unsigned cpu, const std::string& socket, const std::string& core) {
    const std::string folder = fmt::format("sys/devices/system/cpu/cpu{}/topology", cpu);
    put(folder + "/package_cpus_list", socket);
    put(folder + "/core_cpus_list", core);
  }
  void put_online(const std::string& cpus) { put("sys/devices/system/cpu/online", cpus); }
  void put_node(unsigned node, const std::string& cpus) {
    put(fmt::format("sys/devices/system/node/node{}/cpulist", node), cpus);
  }
  void put_nodes(const std::string& nodes) { put("sys/devices/system/node/online", nodes); }
  HostMachine read() const { return MachineReader(root_.path()).read(); }

 private:
  ScratchDirectory root_;
};

// Two sockets of two cores with two threads; Linux numbers the second threads last.
MachineTree& put_two_sockets(MachineTree& tree) {
  tree.put_online("0-7");
  for (const unsigned cpu : {0U, 1U, 4U, 5U}) {
    tree.put_cpu(cpu, "0-1,4-5", fmt::format("{},{}", cpu % 4, cpu % 4 + 4));
  }
  for (const unsigned cpu : {2U, 3U, 6U, 7U}) {
    tree.put_cpu(cpu, "2-3,6-7", fmt::format("{},{}", cpu % 4, cpu % 4 + 4));
  }
  tree.put_nodes("0-1");
  tree.put_node(0, "0-1,4-5");
  tree.put_node(1, "2-3,6-7");
  return tree;
}

TEST(CpuList, IsReadAsTheKernelWritesIt) {
  EXPECT_THAT(*parse_cpu_list("0-3,8\n"), ElementsAre(0, 1, 2, 3, 8));
  EXPECT_THAT(*parse_cpu_list("\n"), IsEmpty());
}

TEST(CpuList, OtherTextIsUnknown) {
  for (const char* const text : {"a", "0-", "-1", "3-1", "0,,1x", "0-65536", "0 1"}) {
    EXPECT_EQ(parse_cpu_list(text), std::nullopt) << text;
  }
}

TEST(MachineReader, CountsSocketsCoresAndThreads) {
  MachineTree tree;
  const HostMachine machine = put_two_sockets(tree).read();
  EXPECT_EQ(machine.cpus, 8);
  EXPECT_EQ(machine.sockets, 2);
  EXPECT_EQ(machine.cores_per_socket, 2);
  EXPECT_EQ(machine.threads_per_core, 2);
}

TEST(MachineReader, NumbersCoresSocketBySocket) {
  MachineTree tree;
  const HostMachine machine = put_two_sockets(tree).read();
  ASSERT_TRUE(machine.numa_nodes);
  EXPECT_THAT(machine.numa_nodes->at(0).cpus, ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(*machine.numa_nodes->at(0).cores, ElementsAre(0, 1));
  EXPECT_THAT(*machine.numa_nodes->at(1).cores, ElementsAre(2, 3));
}

// Linux numbers the CPUs of the sockets in turn: socket 0 has the even ones.
TEST(MachineReader, NumbersInterleavedSocketsOneAfterTheOther) {
  MachineTree tree;
  tree.put_online("0-3");
  for (unsigned cpu = 0; cpu < 4; ++cpu) {
    tree.put_cpu(cpu, cpu % 2 == 0 ? "0,2" : "1,3", std::to_string(cpu));
  }
  tree.put_nodes("0-1");
  tree.put_node(0, "0,2");
  tree.put_node(1, "1,3");
  const HostMachine machine = tree.read();
  EXPECT_THAT(*machine.numa_nodes->at(0).cores, ElementsAre(0, 1));
  EXPECT_THAT(*machine.numa_nodes->at(1).cores, ElementsAre(2, 3));
}

// hwloc keeps the cores of a node within a socket together, whatever their CPUs' numbers.
TEST(MachineReader, NumbersCoresOfNodesWithinSocketTogether) {
  MachineTree tree;
  tree.put_online("0-3");
  for (unsigned cpu = 0; cpu < 4; ++cpu) tree.put_cpu(cpu, "0-3", std::to_string(cpu));
  tree.put_nodes("0-1");
  tree.put_node(0, "0,2");
  tree.put_node(1, "1,3");
  const HostMachine machine = tree.read();
  EXPECT_EQ(machine.sockets, 1);
  EXPECT_EQ(machine.cores_per_socket, 4);
  EXPECT_THAT(*machine.numa_nodes->at(0).cores, ElementsAre(0, 1));
  EXPECT_THAT(*machine.numa_nodes->at(1).cores, ElementsAre(2, 3));
}

TEST(MachineReader, OlderKernelsNamesAreRead) {
  MachineTree tree;
  tree.put_online("0");
  tree.put("sys/devices/system/cpu/cpu0/topology/core_siblings_list", "0");
  tree.put("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0");
  EXPECT_EQ(tree.read().sockets, 1);
}

TEST(MachineReader, NodeOfMemoryAloneHasNoCores) {
  MachineTree tree;
  put_two_sockets(tree).put_nodes("0-2");
  tree.put_node(2, "");
  const HostMachine machine = tree.read();
  EXPECT_THAT(machine.numa_nodes->at(2).cpus, IsEmpty());
  EXPECT_THAT(*machine.numa_nodes->at(2).cores, IsEmpty());
}

TEST(MachineReader, MissingNodesAreUnknown) {
  MachineTree tree;
  tree.put_online("0");
  tree.put_cpu(0, "0", "0");
  const HostMachine machine = tree.read();
  EXPECT_EQ(machine.sockets, 1);
  EXPECT_EQ(machine.numa_nodes, std::nullopt);
}

TEST(MachineReader, MissingFilesAreUnknown) {
  const HostMachine machine = MachineTree().read();
  EXPECT_EQ(machine.cpus, std::nullopt);
  EXPECT_EQ(machine.sockets, std::nullopt);
  EXPECT_EQ(machine.cores_per_socket, std::nullopt);
  EXPECT_EQ(machine.threads_per_core, std::nullopt);
  EXPECT_EQ(machine.numa_nodes, std::nullopt);
  EXPECT_EQ(machine.memory_mib, std::nullopt);
  EXPECT_EQ(machine.slurm_version, std::nullopt);
}

// Some containers have the list of CPUs and no more.
TEST(MachineReader, MissingTopologyIsUnknown) {
  MachineTree tree;
  tree.put_online("0-1");
  tree.put_cpu(0, "0-1", "0");
  tree.put_nodes("0");
  tree.put_node(0, "0-1");
  const HostMachine machine = tree.read();
  EXPECT_EQ(machine.cpus, 2);
  EXPECT_EQ(machine.sockets, std::nullopt);
  EXPECT_EQ(machine.numa_nodes->at(0).cores, std::nullopt);
}

// A processor with cores of two kinds: one has two threads, one has one.
TEST(MachineReader, UnevenCoresHaveNoNumbers) {
  MachineTree tree;
  tree.put_online("0-2");
  tree.put_cpu(0, "0-2", "0-1");
  tree.put_cpu(1, "0-2", "0-1");
  tree.put_cpu(2, "0-2", "2");
  tree.put_nodes("0");
  tree.put_node(0, "0-2");
  const HostMachine machine = tree.read();
  EXPECT_EQ(machine.cpus, 3);
  EXPECT_EQ(machine.sockets, 1);
  EXPECT_EQ(machine.cores_per_socket, 2);
  EXPECT_EQ(machine.threads_per_core, std::nullopt);
  EXPECT_EQ(machine.numa_nodes->at(0).cores, std::nullopt);
}

TEST(MachineReader, ReadsMemory) {
  MachineTree tree;
  tree.put("proc/meminfo", "MemTotal:       528047104 kB\nMemFree:  1 kB");
  EXPECT_EQ(tree.read().memory_mib, 515'671);
}

TEST(MachineReader, MalformedMemoryIsUnknown) {
  for (const char* const text : {"MemTotal: x kB", "MemTotal: 5 GB", "MemFree: 4096 kB"}) {
    MachineTree tree;
    tree.put("proc/meminfo", text);
    EXPECT_EQ(tree.read().memory_mib, std::nullopt) << text;
  }
}

TEST(MachineReader, FindsFileOfContainerEngine) {
  MachineTree tree;
  EXPECT_EQ(tree.read().in_container, false);
  tree.put("run/.containerenv", "");
  EXPECT_EQ(tree.read().in_container, true);
}

TEST(MachineReader, FindsVersionInSlurmd) {
  using namespace std::string_literals;
  MachineTree tree;
  tree.put("usr/sbin/slurmd",
           "\x7f"
           "ELF\0GLIBC_2.34\0slurmd\0"
           "22.05.8\0/lib\0"s);
  EXPECT_EQ(tree.read().slurm_version, "22.05.8");
}

TEST(MachineReader, SlurmdWithTwoVersionsIsUnknown) {
  using namespace std::string_literals;
  MachineTree tree;
  tree.put("usr/sbin/slurmd",
           "a\0"
           "22.05.8\0b\0"
           "23.02.1\0c"s);
  EXPECT_EQ(tree.read().slurm_version, std::nullopt);
}

}  // namespace
}  // namespace gpuyard::daemon
