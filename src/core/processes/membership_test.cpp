// Membership of processes in leases, decided from values. evidence_test.cpp reads files of /proc.
#include "core/processes/membership.h"
#include "core/processes/proc_tree_for_tests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuyard::processes {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TimePoint at_s(std::int64_t s) {
  return TimePoint(std::chrono::seconds(s));
}

ProcessRow row(std::uint32_t pid, std::uint32_t parent, std::int64_t started_s) {
  return {.process = {pid, at_s(started_s)}, .parent = parent};
}

Evidence evidence_of(std::vector<ProcessRow> rows) {
  Evidence evidence;
  evidence.table = ProcessTable{std::move(rows)};
  return evidence;
}

GpuUser user(std::uint32_t pid, std::uint32_t parent, std::int64_t started_s,
             ProcessTraits traces = {}) {
  return {{pid, at_s(started_s)}, parent, "python3", std::move(traces)};
}

LeaseProcesses lease_of_anna(std::vector<ProcessKey> known) {
  return {.lease = "a", .uid = kAnna, .known = std::move(known)};
}

TEST(Membership, DescendantsOfAnyDepthBelongToLease) {
  const auto evidence =
      evidence_of({row(1, 0, 0), row(10, 1, 5), row(11, 10, 6), row(12, 11, 6), row(20, 1, 6)});
  const std::vector<LeaseProcesses> leases{lease_of_anna({{10, at_s(5)}})};
  const Membership membership(leases, evidence);
  EXPECT_THAT(
      membership.live_processes(0),
      ElementsAre(ProcessKey{10, at_s(5)}, ProcessKey{11, at_s(6)}, ProcessKey{12, at_s(6)}));
  EXPECT_EQ(membership.contains(0, user(12, 11, 6)), true);
  EXPECT_EQ(membership.contains(0, user(20, 1, 6)), false);
}

TEST(Membership, ReusedPidIsNoMember) {
  const auto evidence = evidence_of({row(1, 0, 0), row(10, 1, 7), row(11, 10, 8)});
  const std::vector<LeaseProcesses> leases{lease_of_anna({{10, at_s(5)}})};
  const Membership membership(leases, evidence);
  EXPECT_THAT(membership.live_processes(0), IsEmpty());
  EXPECT_EQ(membership.contains(0, user(10, 1, 7)), false);
  EXPECT_EQ(membership.contains(0, user(11, 10, 8)), false);
}

TEST(Membership, AParentThatIsYoungerIsNone) {
  const auto evidence = evidence_of({row(1, 0, 0), row(10, 1, 7), row(11, 10, 6)});
  const std::vector<LeaseProcesses> leases{lease_of_anna({{10, at_s(7)}})};
  const Membership membership(leases, evidence);
  EXPECT_THAT(membership.live_processes(0), ElementsAre(ProcessKey{10, at_s(7)}));
  EXPECT_EQ(membership.contains(0, user(11, 10, 6)), false);
}

TEST(Membership, ParentsInARingEnd) {
  const auto evidence = evidence_of({row(10, 11, 5), row(11, 12, 5), row(12, 10, 5)});
  const std::vector<LeaseProcesses> leases{lease_of_anna({{11, at_s(5)}})};
  const Membership membership(leases, evidence);
  EXPECT_THAT(membership.live_processes(0), ::testing::Contains(ProcessKey{11, at_s(5)}));
}

TEST(Membership, AChainOfParentsHasALimit) {
  std::vector<ProcessRow> rows;
  for (std::uint32_t pid = 1; pid < 3000; ++pid) rows.push_back(row(pid, pid + 1, 5));
  const auto evidence = evidence_of(std::move(rows));
  const std::vector<LeaseProcesses> leases{lease_of_anna({{900, at_s(5)}, {2900, at_s(5)}})};
  const Membership membership(leases, evidence);
  EXPECT_EQ(membership.contains(0, user(1, 2, 5)), true);
  EXPECT_LT(membership.live_processes(0).size(), 2900U);
}

TEST(Membership, EndedProcessIsNotAlive) {
  auto evidence = evidence_of({row(1, 0, 0), row(10, 1, 5)});
  evidence.table->rows[1].ended = true;
  const std::vector<LeaseProcesses> leases{lease_of_anna({{10, at_s(5)}, {11, at_s(5)}})};
  EXPECT_THAT(Membership(leases, evidence).live_processes(0), IsEmpty());
}

TEST(Membership, UnreadableProcessCountsAsAlive) {
  auto evidence = evidence_of({row(1, 0, 0), row(11, 10, 6)});
  evidence.table->unreadable = {10};
  const std::vector<LeaseProcesses> leases{lease_of_anna({{10, at_s(5)}})};
  EXPECT_THAT(Membership(leases, evidence).live_processes(0),
              UnorderedElementsAre(ProcessKey{10, at_s(5)}, ProcessKey{11, at_s(6)}));
}

TEST(Membership, MissingTableKeepsKnownAliveAndUnknownUndecided) {
  Evidence evidence;
  const std::vector<LeaseProcesses> leases{lease_of_anna({{10, at_s(5)}})};
  const Membership membership(leases, evidence);
  EXPECT_THAT(membership.live_processes(0), ElementsAre(ProcessKey{10, at_s(5)}));
  EXPECT_EQ(membership.contains(0, user(10, 1, 5)), true) << "its number and start are enough";
  EXPECT_EQ(membership.contains(0, user(11, 10, 6)), std::nullopt);
}

TEST(Membership, OnlyEnvironmentOfLeaseUserIsTrusted) {
  auto evidence = evidence_of(
      {row(1, 0, 0), row(10, 1, 5), row(11, 10, 6), row(20, 1, 5), row(21, 1, 5), row(22, 1, 5)});
  evidence.traits = {{10, ProcessTraits{.uid = kAnna, .marked_lease = "a"}},
                     {20, ProcessTraits{.uid = kBen, .marked_lease = "a"}},
                     {21, ProcessTraits{.uid = 0, .one_user = false, .marked_lease = "a"}},
                     {22, ProcessTraits{.uid = kAnna, .one_user = false, .marked_lease = "a"}}};
  const std::vector<LeaseProcesses> leases{lease_of_anna({})};
  const Membership membership(leases, evidence);
  EXPECT_THAT(membership.live_processes(0),
              ElementsAre(ProcessKey{10, at_s(5)}, ProcessKey{11, at_s(6)}));
}

TEST(Membership, RootEnvironmentIsTrustedOnLeaseGpu) {
  const auto evidence = evidence_of({row(1, 0, 0)});
  const std::vector<LeaseProcesses> leases{lease_of_anna({})};
  const Membership membership(leases, evidence);
  for (const std::uint32_t uid : {kAnna, 0U}) {
    EXPECT_EQ(membership.contains(0, user(30, 1, 6, {.uid = uid, .marked_lease = "a"})), true);
    EXPECT_EQ(membership.contains(0, user(30, 1, 6, {.uid = uid, .marked_lease = "b"})), false);
    EXPECT_EQ(membership.contains(
                  0, user(30, 1, 6, {.uid = uid, .one_user = false, .marked_lease = "a"})),
              false);
  }
  EXPECT_EQ(membership.contains(0, user(30, 1, 6, {.uid = kBen, .marked_lease = "a"})), false);
}

Container container(const std::string& path, std::optional<std::uint32_t> maker = 0) {
  return {{.hierarchy = "", .path = path}, maker};
}

TEST(Membership, UserMadeContainerCountsForThatUserOnly) {
  const auto evidence = evidence_of({row(1, 0, 0)});
  const std::vector<LeaseProcesses> leases{lease_of_anna({}), {.lease = "b", .uid = kBen}};
  const Membership membership(leases, evidence);
  const auto in_it = [](const std::string& mark) {
    return user(30, 1, 6, {.uid = 0, .marked_lease = mark, .container = container("c1", kBen)});
  };
  EXPECT_EQ(membership.contains(0, in_it("a")), false);
  EXPECT_EQ(membership.contains(1, in_it("b")), true);
}

TEST(Membership, ProcessesOwnedOnlyByAContainerAreListed) {
  auto evidence = evidence_of(
      {row(1, 0, 0), row(10, 1, 5), row(11, 10, 5), row(30, 1, 6), row(31, 30, 6), row(40, 1, 6)});
  evidence.traits = {
      {10, ProcessTraits{.uid = kAnna,
                         .marked_lease = "a",
                         .container = container("c1"),
                         .is_container_init = true}},
      {30, ProcessTraits{.uid = kBen, .marked_lease = "a", .container = container("c1")}},
      {40, ProcessTraits{.uid = kAnna, .marked_lease = "a", .container = container("c1")}}};
  const std::vector<LeaseProcesses> leases{lease_of_anna({})};
  const Membership membership(leases, evidence);
  EXPECT_THAT(membership.live_processes(0),
              ElementsAre(ProcessKey{10, at_s(5)}, ProcessKey{11, at_s(5)}, ProcessKey{30, at_s(6)},
                          ProcessKey{31, at_s(6)}, ProcessKey{40, at_s(6)}));
  EXPECT_THAT(membership.live_by_container(0),
              ElementsAre(ProcessKey{30, at_s(6)}, ProcessKey{31, at_s(6)}));
}

TEST(Membership, ProcessMayBelongToSeveralLeases) {
  const auto evidence = evidence_of({row(1, 0, 0), row(10, 1, 5), row(11, 10, 6)});
  const std::vector<LeaseProcesses> leases{
      lease_of_anna({{10, at_s(5)}}), {.lease = "inner", .uid = kAnna, .known = {{11, at_s(6)}}}};
  const Membership membership(leases, evidence);
  EXPECT_EQ(membership.contains(0, user(11, 10, 6)), true);
  EXPECT_EQ(membership.contains(1, user(11, 10, 6)), true);
  EXPECT_EQ(membership.contains(1, user(10, 1, 5)), false);
}

TEST(Membership, ContainerInitCoversItsWholeContainer) {
  auto evidence = evidence_of({row(1, 0, 0), row(10, 1, 5), row(30, 1, 6)});
  evidence.traits = {
      {10, ProcessTraits{
               .marked_lease = "a", .container = container("c1"), .is_container_init = true}}};
  const std::vector<LeaseProcesses> leases{lease_of_anna({})};
  const Membership membership(leases, evidence);
  EXPECT_EQ(membership.contains(0, user(30, 1, 6, {.uid = kBen, .container = container("c1")})),
            true);
  EXPECT_EQ(membership.contains(0, user(30, 1, 6, {.uid = kBen, .container = container("c2")})),
            false);
  EXPECT_EQ(membership.contains(0, user(30, 1, 6, {.uid = kBen})), false);
}

// As in a container with many users, where one of them leases a GPU.
TEST(Membership, OtherContainerProcessCoversOnlyItself) {
  auto evidence = evidence_of({row(1, 0, 0), row(10, 1, 5), row(30, 1, 6)});
  evidence.traits = {
      {10, ProcessTraits{.uid = kAnna, .marked_lease = "a", .container = container("c1")}}};
  const std::vector<LeaseProcesses> leases{lease_of_anna({})};
  const Membership membership(leases, evidence);
  EXPECT_EQ(membership.contains(0, user(30, 1, 6, {.uid = kAnna, .container = container("c1")})),
            false);
}

TEST(Membership, WholeUserLeaseCoversGpuProcessesOnly) {
  const auto evidence = evidence_of({row(1, 0, 0), row(30, 1, 6)});
  const std::vector<LeaseProcesses> leases{{.lease = "a", .uid = kAnna, .whole_user = true}};
  const Membership membership(leases, evidence);
  EXPECT_EQ(membership.contains(0, user(30, 1, 6, {.uid = kAnna})), true);
  EXPECT_EQ(membership.contains(0, user(30, 1, 6, {.uid = kBen})), false);
  EXPECT_THAT(membership.live_processes(0), IsEmpty());
}

TEST(Membership, WholeGpuLeaseCoversGpuProcessesOfAnyUser) {
  const auto evidence = evidence_of({row(1, 0, 0), row(30, 1, 6)});
  const std::vector<LeaseProcesses> leases{{.lease = "a", .uid = kAnna, .whole_gpu = true}};
  const Membership membership(leases, evidence);
  EXPECT_EQ(membership.contains(0, user(30, 1, 6, {.uid = kBen})), true);
  EXPECT_EQ(membership.contains(0, Error{Errc::not_found, "no such process"}), std::nullopt);
  EXPECT_THAT(membership.live_processes(0), IsEmpty());
}

TEST(Membership, InvisibleProcessIsUndecided) {
  const auto evidence = evidence_of({row(1, 0, 0)});
  const std::vector<LeaseProcesses> leases{{.lease = "a", .uid = kAnna, .whole_user = true}};
  EXPECT_EQ(Membership(leases, evidence).contains(0, Error{Errc::not_found, "no such process"}),
            std::nullopt);
}

TEST(Membership, PidsOfOtherNamespaceAreNotCompared) {
  auto evidence = evidence_of({row(1, 0, 0), row(10, 1, 5)});
  evidence.same_pids = false;
  const std::vector<LeaseProcesses> leases{lease_of_anna({{10, at_s(5)}})};
  const Membership membership(leases, evidence);
  EXPECT_EQ(membership.contains(0, user(10, 1, 5)), std::nullopt);
  EXPECT_EQ(membership.contains(0, user(11, 10, 6)), std::nullopt);
  EXPECT_EQ(membership.contains(0, user(11, 10, 6, {.uid = kAnna, .marked_lease = "a"})), true);
}

TEST(Membership, ProcessNewerThanTableBelongsThroughParent) {
  const auto evidence = evidence_of({row(1, 0, 0), row(10, 1, 5)});
  const std::vector<LeaseProcesses> leases{lease_of_anna({{10, at_s(5)}})};
  EXPECT_EQ(Membership(leases, evidence).contains(0, user(40, 10, 9)), true);
}

TEST(GpuUser, ControlGroupOfAJobOrPodIsRecognized) {
  const auto in_job = [](const std::string& path, std::uint32_t maker) {
    ProcessView view;
    view.cgroup = "0::" + path + "\n";
    return gpu_user_of(std::move(view), [maker](const Group&) { return std::optional(maker); })
        .in_job;
  };
  const std::string job = "/system.slice/slurmstepd.scope/job_17/step_0/user/task_0";
  EXPECT_TRUE(in_job(job, kRootUid));
  EXPECT_FALSE(in_job(job, 1000)) << "any user may name a group so";
  EXPECT_FALSE(in_job("/user.slice/user-1000.slice/session-3.scope", kRootUid));
}

}  // namespace
}  // namespace gpuyard::processes
