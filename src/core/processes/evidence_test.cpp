// Membership of processes in leases, decided from files like those of /proc.
#include "core/processes/evidence.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include <gtest/gtest.h>

#include "core/processes/proc_tree_for_tests.h"

namespace gpuyard::processes {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr TimePoint kNow{std::chrono::hours(1)};
constexpr std::uint64_t kEarlyStartTicks = 100'000;  // 1000 s after the boot

TimePoint started(std::uint64_t ticks) {
  return TimePoint(std::chrono::milliseconds(ticks * 10));
}

std::vector<std::uint32_t> pids_of(const std::vector<ProcessKey>& processes) {
  std::vector<std::uint32_t> pids;
  for (const ProcessKey& process : processes) pids.push_back(process.pid);
  return pids;
}

class EvidenceReaderTest : public ::testing::Test {
 protected:
  EvidenceReaderTest() { proc_.put({.pid = 1, .command = "init", .parent = 0, .uid = 0}); }

  void put(std::uint32_t pid, std::uint32_t parent, std::string environment = "PATH=/bin",
           std::uint32_t uid = kAnna) {
    proc_.put({.pid = pid,
               .start_ticks = kEarlyStartTicks + pid,
               .parent = parent,
               .real_uid = uid,
               .uid = uid,
               .environment = std::move(environment)});
  }
  // Returns the indexes in `lease_processes_` of the leases that the process belongs to; -1: not
  // known.
  std::vector<int> leases_of(std::uint32_t pid, PidOrigin numbers = PidOrigin::simulation) {
    const Evidence evidence = reader_.read(lease_processes_, {{pid, kNow}}, numbers, kNow);
    const Membership membership(lease_processes_, evidence);
    std::vector<int> of;
    for (std::size_t i = 0; i < lease_processes_.size(); ++i) {
      const auto has = membership.contains(i, evidence.gpu_users.at(pid));
      if (!has) return {-1};
      if (*has) of.push_back(static_cast<int>(i));
    }
    return of;
  }
  std::vector<std::uint32_t> alive() {
    const Evidence evidence = reader_.read(lease_processes_, {}, PidOrigin::simulation, kNow);
    return pids_of(Membership(lease_processes_, evidence).live_processes(0));
  }
  // A process of the lease that has no environment yet.
  static ProcTree::Process loading() {
    return {.pid = 10,
            .start_ticks = kEarlyStartTicks,
            .environment = "GPUYARD_LEASE=lease-a",
            .loading = true};
  }
  static ProcessKey known(std::uint32_t pid) { return {pid, started(kEarlyStartTicks + pid)}; }

  ProcTree proc_;
  EvidenceReader reader_{proc_.root(), proc_.root()};
  std::vector<LeaseProcesses> lease_processes_{{.lease = "lease-a", .uid = kAnna}};
};

TEST_F(EvidenceReaderTest, AnEnvironmentNamesTheLease) {
  put(10, 1, std::string("A=GPUYARD_LEASE=x\0GPUYARD_LEASE=lease-a\0B=1", 43));
  put(11, 10, "");
  put(12, 1, "GPUYARD_LEASE_OLD=lease-a");
  put(13, 1, "GPUYARD_LEASE=lease-a", kBen);
  EXPECT_THAT(leases_of(10), ElementsAre(0));
  EXPECT_THAT(leases_of(11), ElementsAre(0)) << "its child, whatever its own says";
  EXPECT_THAT(leases_of(12), IsEmpty());
  EXPECT_THAT(leases_of(13), IsEmpty()) << "another user's process claims it";
  EXPECT_THAT(alive(), ElementsAre(10, 11));
}

// A `su` that waits for a password has the environment of the user who started it.
TEST_F(EvidenceReaderTest, SetuidProcessEnvironmentIsIgnored) {
  proc_.put({.pid = 10,
             .start_ticks = kEarlyStartTicks,
             .real_uid = kBen,
             .uid = 0,
             .environment = "GPUYARD_LEASE=lease-a"});
  proc_.put({.pid = 11,
             .start_ticks = kEarlyStartTicks,
             .real_uid = kBen,
             .uid = kAnna,
             .environment = "GPUYARD_LEASE=lease-a"});
  EXPECT_THAT(alive(), IsEmpty());
}

TEST_F(EvidenceReaderTest, EnvironmentIsReadUpToLimit) {
  put(10, 1, "A=" + std::string(kMaxEnvironmentBytes / 2, 'x') + '\0' + "GPUYARD_LEASE=lease-a");
  put(11, 1, "A=" + std::string(kMaxEnvironmentBytes, 'x') + '\0' + "GPUYARD_LEASE=lease-a");
  EXPECT_THAT(leases_of(10), ElementsAre(0));
  EXPECT_THAT(leases_of(11), IsEmpty());
}

TEST_F(EvidenceReaderTest, UninterruptibleProcessEnvironmentIsNotRead) {
  put(10, 1);
  proc_.put({.pid = 10, .state = 'D', .environment = "GPUYARD_LEASE=lease-a"});
  EXPECT_THAT(leases_of(10), IsEmpty());
}

// The earlier program's environment was read already; the new program's has to be read too.
TEST_F(EvidenceReaderTest, ANewProgramHasANewEnvironment) {
  proc_.put({.pid = 10, .start_ticks = kEarlyStartTicks, .command = "runc"});
  EXPECT_THAT(alive(), IsEmpty());
  proc_.put({.pid = 10,
             .start_ticks = kEarlyStartTicks,
             .command = "python3",
             .environment = "GPUYARD_LEASE=lease-a"});
  EXPECT_THAT(alive(), ElementsAre(10));
}

TEST_F(EvidenceReaderTest, LoadingProgramIsWaitedFor) {
  ProcTree::Process process = loading();
  proc_.put(process);
  process.loading = false;
  const std::jthread kernel([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    proc_.load(process);
  });
  EXPECT_THAT(alive(), ElementsAre(10));
}

TEST_F(EvidenceReaderTest, LoadingTimeoutIsRetriedOnNextRead) {
  ProcTree::Process process = loading();
  proc_.put(process);
  EXPECT_THAT(alive(), IsEmpty());
  process.loading = false;
  proc_.put(process);
  EXPECT_THAT(alive(), ElementsAre(10));
}

TEST_F(EvidenceReaderTest, ProcessWithoutLeaseIsRereadOnlyOnGpu) {
  put(10, 1);
  EXPECT_THAT(alive(), IsEmpty());
  put(10, 1, "GPUYARD_LEASE=lease-a");
  EXPECT_THAT(alive(), IsEmpty()) << "the same program, and no longer young";
  EXPECT_THAT(leases_of(10), ElementsAre(0)) << "whoever is on a GPU is";
}

TEST_F(EvidenceReaderTest, EnvironmentOfContainerInitCoversContainer) {
  const std::string id(64, 'c');
  const std::string group = "0::/system.slice/docker-" + id + ".scope\n";
  proc_.put({.pid = 50,
             .start_ticks = kEarlyStartTicks,
             .uid = 0,
             .cgroup = group,
             .environment = "GPUYARD_LEASE=lease-a",
             .numbers = "50\t1"});
  proc_.put({.pid = 60, .start_ticks = kEarlyStartTicks, .uid = kBen, .cgroup = group});
  EXPECT_THAT(leases_of(60), ElementsAre(0));
  EXPECT_THAT(alive(), IsEmpty()) << "root says so, on no GPU of the lease";
  proc_.put({.pid = 50,
             .start_ticks = kEarlyStartTicks,
             .command = "bash",
             .uid = 0,
             .cgroup = group,
             .environment = "GPUYARD_LEASE=lease-a",
             .numbers = "50\t17"});
  EXPECT_THAT(leases_of(60), IsEmpty()) << "not its first";
}

const std::string kContainer = "docker-" + std::string(64, 'c') + ".scope";
const std::string kBensManager = "0::/user.slice/user-1001.slice/user@1001.service/";
const std::string kAnnasManager = "0::/user.slice/user-1000.slice/user@1000.service/";

class InAContainer : public EvidenceReaderTest {
 protected:
  void put_in(const std::string& group, std::uint32_t pid, std::uint32_t uid,
              std::string environment = "GPUYARD_LEASE=lease-a", std::string numbers = {}) {
    proc_.put({.pid = pid,
               .start_ticks = kEarlyStartTicks + pid,
               .real_uid = uid,
               .uid = uid,
               .cgroup = group + kContainer + "\n",
               .environment = std::move(environment),
               .numbers = std::move(numbers)});
  }
};

TEST_F(InAContainer, GroupOfAnotherUserWithItsNameIsSeparate) {
  put_in("0::/system.slice/", 50, kAnna, "GPUYARD_LEASE=lease-a", "50\t1");
  put_in("0::/system.slice/", 51, kBen);
  put_in(kBensManager, 60, kBen);
  put_in(kBensManager, 61, kBen, "PATH=/bin");
  EXPECT_THAT(alive(), ElementsAre(50, 51));
  EXPECT_THAT(leases_of(60), IsEmpty());
  EXPECT_THAT(leases_of(61), IsEmpty());
}

TEST_F(InAContainer, FirstProcessCannotJoinALeaseOfAnotherUser) {
  put_in(kBensManager, 50, kAnna, "GPUYARD_LEASE=lease-a", "50\t1");
  put_in(kBensManager, 60, kBen);
  put_in(kBensManager, 61, kBen, "PATH=/bin");
  EXPECT_THAT(alive(), ElementsAre(50)) << "it runs as the lessee";
  EXPECT_THAT(leases_of(60), IsEmpty());
  EXPECT_THAT(leases_of(61), IsEmpty());
}

TEST_F(InAContainer, GroupMadeByRootMayRunAsAnyUser) {
  for (const std::string group :
       {"0::/system.slice/", "0::/docker/", "0::/kubepods.slice/kubepods-besteffort.slice/"}) {
    for (const std::uint32_t uid : {0U, kAnna, 999U}) {
      put_in(group, 60, uid);
      EXPECT_THAT(leases_of(60), ElementsAre(0)) << group << uid;
    }
  }
  EXPECT_THAT(alive(), IsEmpty()) << "the last process did not run as the lessee";
}

TEST_F(InAContainer, RootlessContainerBelongsOnlyToItsUser) {
  for (const std::uint32_t uid : {kAnna, 100'999U}) {
    put_in(kAnnasManager + "user.slice/", 60, uid);
    EXPECT_THAT(leases_of(60), ElementsAre(0)) << uid;
  }
  put_in(kBensManager + "user.slice/", 60, 165'999);
  EXPECT_THAT(leases_of(60), IsEmpty());
}

TEST_F(InAContainer, UnknownMakerLeavesMembershipUndecided) {
  reader_ = EvidenceReader(proc_.root(), proc_.root(), {},
                           [](const Group&) { return std::optional<std::uint32_t>(); });
  put_in("0::/anywhere/", 50, 0, "GPUYARD_LEASE=lease-a", "50\t1");
  put_in("0::/anywhere/", 60, kBen);
  put_in("0::/anywhere/", 61, kBen, "PATH=/bin");
  put_in("0::/elsewhere/", 62, kBen, "PATH=/bin");
  put_in("0::/elsewhere/", 63, kAnna);
  EXPECT_THAT(leases_of(60), ElementsAre(-1));
  EXPECT_THAT(leases_of(61), ElementsAre(-1)) << "its first process names the lease";
  EXPECT_THAT(leases_of(62), IsEmpty()) << "nothing names the lease";
  EXPECT_THAT(leases_of(63), ElementsAre(0)) << "it runs as the lessee";
  EXPECT_THAT(alive(), ElementsAre(63));
}

// A user in the container creates a nested PID namespace.
TEST_F(InAContainer, NestedPidNamespaceDoesNotMarkTheContainer) {
  put_in("0::/system.slice/", 50, kAnna, "GPUYARD_LEASE=lease-a", "50\t7\t1");
  put_in("0::/system.slice/", 60, kBen, "PATH=/bin");
  EXPECT_THAT(leases_of(60), IsEmpty());
}

TEST_F(EvidenceReaderTest, SubordinateUidsBelongToOwner) {
  reader_ = EvidenceReader(proc_.root(), proc_.root(), [](std::uint32_t uid) {
    return uid >= 100'000 && uid < 165'536 ? kAnna : uid;
  });
  put(10, 1, "GPUYARD_LEASE=lease-a", 100'999);
  put(11, 1, "GPUYARD_LEASE=lease-a", 165'999);
  EXPECT_THAT(leases_of(10), ElementsAre(0));
  EXPECT_THAT(leases_of(11), IsEmpty());
  EXPECT_THAT(alive(), ElementsAre(10));
}

TEST_F(EvidenceReaderTest, RecordedOrInvisiblePidIsUndecided) {
  lease_processes_[0].known = {known(10)};
  put(10, 1);
  EXPECT_THAT(leases_of(10, PidOrigin::recording), ElementsAre(-1));
  EXPECT_THAT(leases_of(99), ElementsAre(-1)) << "not visible";
}

TEST_F(EvidenceReaderTest, ProcessYoungerThanListIsConflict) {
  lease_processes_[0].known = {known(10)};
  put(10, 1);
  const auto listed = started(kEarlyStartTicks + 10) - std::chrono::milliseconds(10);
  const auto evidence = reader_.read(lease_processes_, {{10, listed}}, PidOrigin::simulation, kNow);
  EXPECT_EQ(evidence.gpu_users.at(10).error().code, Errc::conflict);
}

// The driver's numbers are the host's; ours are those of a container.
TEST_F(EvidenceReaderTest, NumbersOfForeignProcAreUndecided) {
  ProcTree own;
  own.put({.pid = 1, .parent = 0});
  own.put({.pid = 10, .start_ticks = kEarlyStartTicks + 10});
  put(10, 1);
  put(11, 1, "GPUYARD_LEASE=lease-a");
  lease_processes_[0].known = {known(10)};
  reader_ = EvidenceReader(proc_.root(), own.root());
  EXPECT_THAT(leases_of(10), ElementsAre(-1));
  EXPECT_THAT(leases_of(11), ElementsAre(0));
  EXPECT_THAT(alive(), ElementsAre(10)) << "of our own numbers";
  const std::string self = std::to_string(::getpid());
  ASSERT_EQ(::symlink(self.c_str(), (proc_.root() + "/self").c_str()), 0);
  EXPECT_THAT(leases_of(10), ElementsAre(0)) << "it is the same /proc, elsewhere";
}

// The kernel, not this /proc, says whether a known process still exists.
TEST_F(EvidenceReaderTest, IncompleteProcTableKeepsOnlyExistingProcessAlive) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  const ProcessKey here{static_cast<std::uint32_t>(::getpid()), started(kEarlyStartTicks)};
  const ProcessKey gone{static_cast<std::uint32_t>(child), started(kEarlyStartTicks)};
  lease_processes_[0].known = {here, gone};
  EXPECT_THAT(alive(), IsEmpty()) << "everybody is seen, and they are not";
  proc_.remove(1);
  EXPECT_THAT(alive(), ElementsAre(here.pid));
}

TEST_F(EvidenceReaderTest, UnreadableProcKeepsKnownProcessAlive) {
  lease_processes_[0].known = {known(10)};
  reader_ = EvidenceReader("/nowhere/proc", "/nowhere/proc");
  EXPECT_THAT(alive(), ElementsAre(10));
  EXPECT_THAT(leases_of(10), ElementsAre(-1));
}

TEST(Mark, IsTheFirstThatIsSet) {
  EXPECT_EQ(lease_in_environment(std::string_view("A=1\0GPUYARD_LEASE=x\0GPUYARD_LEASE=y\0", 36)),
            "x");
  EXPECT_EQ(lease_in_environment("GPUYARD_LEASE="), "");
  EXPECT_EQ(lease_in_environment("GPUYARD_LEASE"), "");
  EXPECT_EQ(lease_in_environment("XGPUYARD_LEASE=x"), "");
  EXPECT_EQ(lease_in_environment("GPUYARD_LEASE=" + std::string(65, 'x')), "")
      << "no lease is called so";
  EXPECT_EQ(lease_in_environment(""), "");
}

}  // namespace

namespace {

// Process 7 is ordinary, 8 is like `su` waiting for a password, and 9 has given up root for now.
TEST(ProcessTraits, ProcessWithSecondUidIsNotOneUser) {
  ProcTree proc;
  const std::string marked = "GPUYARD_LEASE=0123456789abcdef";
  proc.put({.pid = 7, .start_ticks = 1, .environment = marked});
  proc.put({.pid = 8, .start_ticks = 1, .uid = kRootUid, .environment = marked});
  proc.put({.pid = 9, .start_ticks = 1, .saved_uid = kRootUid, .environment = marked});
  EXPECT_TRUE(read_gpu_user(proc.root(), 7)->traits.one_user);
  EXPECT_FALSE(read_gpu_user(proc.root(), 8)->traits.one_user);
  EXPECT_FALSE(read_gpu_user(proc.root(), 9)->traits.one_user);
}

}  // namespace
}  // namespace gpuyard::processes
