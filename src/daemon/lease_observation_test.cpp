#include "daemon/lease_observation.h"

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/device/catalog.h"

namespace gpuyard::daemon {
namespace {

using lease::ObservedProcess;
using processes::GpuUser;
using processes::ProcessRow;
using processes::ProcessTable;
using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr TimePoint kAskedAt{std::chrono::hours(1)};
constexpr TimePoint kStartedAt{std::chrono::minutes(10)};
constexpr std::uint32_t kAnna = 1000;
constexpr std::uint32_t kBen = 1001;

GpuProcess process(std::uint32_t pid, ProcessKind kind = ProcessKind::compute) {
  return {pid, kind, pid * 1000, {}};
}

DeviceState gpu(const DeviceId& id, std::vector<GpuProcess> processes, TimePoint taken = kAskedAt) {
  DeviceState device;
  device.info.id = id;
  device.sample.set(ProcessList{taken, std::move(processes)});
  device.sample.set({Metric::memory_used, 0, taken, std::int64_t{5'000'000}});
  device.sample.set({Metric::memory_total, 0, taken, std::int64_t{80'000'000}});
  return device;
}

Snapshot snapshot_of(std::vector<DeviceState> devices) {
  Snapshot snapshot;
  snapshot.driver.initialised = true;
  snapshot.devices = std::move(devices);
  return snapshot;
}

GpuUser user(std::uint32_t pid, std::uint32_t parent, std::uint32_t uid) {
  return {{pid, kStartedAt}, parent, "python3", {.uid = uid}};
}

TEST(GpuLists, OnlyComputeProcessesAreListed) {
  const auto snapshot = snapshot_of({gpu("G0", {process(7), process(8, ProcessKind::graphics),
                                                process(9, ProcessKind::compute_and_graphics)})});
  const auto lists = gpu_lists_of(snapshot, {"G0"}, kAskedAt);
  EXPECT_THAT(*lists.computing.at("G0"),
              ElementsAre(process(7), process(9, ProcessKind::compute_and_graphics)));
  EXPECT_THAT(lists.listed, ElementsAre(Pair(7, kAskedAt), Pair(9, kAskedAt)));
  EXPECT_EQ(lists.used_bytes.at("G0"), 5'000'000 - 8'000) << "but for what is drawn";
}

TEST(GpuLists, UnavailableListIsUnknown) {
  DeviceState never_read;
  never_read.info.id = "G0";
  DeviceState refused = never_read;
  refused.info.id = "G1";
  refused.sample.set(ProcessList{kAskedAt, Missing{MissingReason::timed_out, "no answer"}});
  DeviceState hangs = gpu("G2", {process(7)});
  hangs.condition = DeviceCondition::unresponsive;
  const auto snapshot = snapshot_of({never_read, refused, hangs});
  const auto lists = gpu_lists_of(snapshot, {"G0", "G1", "G2", "G3"}, kAskedAt);
  for (const DeviceId id : {"G0", "G1", "G2", "G3"}) {
    EXPECT_EQ(lists.computing.at(id), std::nullopt) << id;
    EXPECT_EQ(lists.used_bytes.at(id), std::nullopt) << id;
  }
}

TEST(GpuLists, ListOfSleepingGpuIsCurrent) {
  DeviceState asleep = gpu("G0", {}, kAskedAt - std::chrono::hours(8));
  asleep.runtime_suspend = RuntimeSuspend{.polling_paused = true, .asleep_since = TimePoint{}};
  const auto lists = gpu_lists_of(snapshot_of({asleep, gpu("G1", {})}), {"G0", "G1"}, kAskedAt);
  EXPECT_EQ(lists.taken_at, kAskedAt);
  EXPECT_TRUE(lists.computing.at("G0"));
}

// A process may have begun since: the GPU is not read, but awake.
TEST(GpuLists, ListOfPausedGpuKeepsItsTime) {
  const TimePoint taken = kAskedAt - std::chrono::seconds(8);
  DeviceState paused = gpu("G0", {}, taken);
  paused.runtime_suspend = RuntimeSuspend{.polling_paused = true};
  EXPECT_EQ(gpu_lists_of(snapshot_of({paused}), {"G0"}, kAskedAt).taken_at, taken);
}

TEST(GpuLists, WithoutADriverThereAreNone) {
  auto snapshot = snapshot_of({gpu("G0", {process(7)})});
  snapshot.driver.initialised = false;
  EXPECT_EQ(gpu_lists_of(snapshot, {"G0"}, kAskedAt).computing.at("G0"), std::nullopt);
}

TEST(GpuLists, AgeIsThatOfOldestList) {
  const auto old = kAskedAt - std::chrono::seconds(4);
  const auto snapshot = snapshot_of({gpu("G0", {process(7)}), gpu("G1", {process(7)}, old),
                                     gpu("G2", {}, old - std::chrono::hours(1))});
  const auto lists = gpu_lists_of(snapshot, {"G0", "G1"}, kAskedAt);
  EXPECT_EQ(lists.taken_at, old);
  EXPECT_THAT(lists.listed, ElementsAre(Pair(7, kAskedAt))) << "the newest list with it";
}

class ObservationTest : public ::testing::Test {
 protected:
  ObservationTest() {
    evidence_.table = ProcessTable{{ProcessRow{.process = {1, TimePoint()}},
                                    ProcessRow{.process = {10, kStartedAt}, .parent = 1},
                                    ProcessRow{.process = {11, kStartedAt}, .parent = 10},
                                    ProcessRow{.process = {20, kStartedAt}, .parent = 1}}};
    evidence_.gpu_users.emplace(11, user(11, 10, kAnna));
    evidence_.gpu_users.emplace(20, user(20, 1, kBen));
    evidence_.gpu_users.emplace(30, Error{Errc::not_found, "not visible"});
  }
  lease::Observation sight(const Snapshot& snapshot) const {
    return make_observation(gpu_lists_of(snapshot, {"G0", "G1"}, kAskedAt), suspects_,
                            lease_processes_of(suspects_), evidence_);
  }

  std::vector<lease::ObservedLease> suspects_{
      {.lease = "a", .uid = kAnna, .gpus = {"G0"}, .processes = {{10, kStartedAt}}}};
  processes::Evidence evidence_;
};

TEST_F(ObservationTest, ProcessesAreMemberUnleasedOrUnknown) {
  const auto seen = sight(snapshot_of({gpu("G0", {process(11), process(20), process(30)})}));
  const ObservedProcess member{.pid = 11,
                               .attribution = ObservedProcess::Attribution::member,
                               .started = kStartedAt,
                               .lease = "a",
                               .uid = kAnna,
                               .command = "python3",
                               .memory_bytes = 11'000};
  const ObservedProcess outsider{.pid = 20,
                                 .attribution = ObservedProcess::Attribution::outsider,
                                 .started = kStartedAt,
                                 .uid = kBen,
                                 .command = "python3",
                                 .memory_bytes = 20'000};
  const ObservedProcess unknown{
      .pid = 30, .attribution = ObservedProcess::Attribution::unknown, .memory_bytes = 30'000};
  EXPECT_THAT(*seen.processes_by_gpu.at("G0"), ElementsAre(member, outsider, unknown));
  EXPECT_EQ(seen.processes_by_gpu.at("G1"), std::nullopt);
  EXPECT_EQ(seen.used_bytes.at("G0"), 5'000'000);
}

TEST_F(ObservationTest, MemberOnGpuOutsideLeaseIsUnleased) {
  const auto seen = sight(snapshot_of({gpu("G1", {process(11)})}));
  EXPECT_EQ(seen.processes_by_gpu.at("G1")->front().attribution,
            ObservedProcess::Attribution::outsider);
  EXPECT_EQ(seen.processes_by_gpu.at("G1")->front().lease, "");
}

TEST_F(ObservationTest, ProcessInAJobsControlGroupSaysSo) {
  evidence_.gpu_users.at(20)->in_job = true;
  const auto seen = sight(snapshot_of({gpu("G1", {process(20), process(11)})}));
  EXPECT_TRUE(seen.processes_by_gpu.at("G1")->at(0).in_job);
  EXPECT_FALSE(seen.processes_by_gpu.at("G1")->at(1).in_job);
}

TEST_F(ObservationTest, HasEveryLivingProcessOfALease) {
  EXPECT_THAT(sight(snapshot_of({})).alive_by_lease,
              ElementsAre(Pair("a", UnorderedElementsAre(lease::ProcessKey{10, kStartedAt},
                                                         lease::ProcessKey{11, kStartedAt}))));
}

TEST_F(ObservationTest, ListsProcessesOwnedOnlyByAContainer) {
  const processes::Container container{.group = {"", "/docker/c"}, .maker = 0};
  evidence_.table->rows.push_back({.process = {30, kStartedAt}, .parent = 1});
  evidence_.traits = {
      {10, {.uid = kAnna, .marked_lease = "a", .container = container, .is_container_init = true}},
      {30, {.uid = kBen, .marked_lease = "a", .container = container}}};
  EXPECT_THAT(sight(snapshot_of({})).by_container,
              ElementsAre(Pair("a", ElementsAre(lease::ProcessKey{30, kStartedAt}))));
}

TEST_F(ObservationTest, ProcessWithoutEvidenceIsUnknown) {
  evidence_.table = Error{Errc::unavailable, "no /proc"};
  suspects_[0].processes = {{10, kStartedAt}};
  const auto seen = sight(snapshot_of({gpu("G0", {process(11)}), gpu("G1", {process(20)})}));
  EXPECT_EQ(seen.processes_by_gpu.at("G0")->front().attribution,
            ObservedProcess::Attribution::unknown);
  EXPECT_EQ(seen.processes_by_gpu.at("G1")->front().attribution,
            ObservedProcess::Attribution::outsider)
      << "nobody has it";
  EXPECT_THAT(seen.alive_by_lease.at("a"), ElementsAre(lease::ProcessKey{10, kStartedAt}));
}

TEST_F(ObservationTest, FailedObservationKeepsProcessesAliveAndListsUnknown) {
  const auto seen = failed_observation(suspects_, {"G0"}, kAskedAt);
  EXPECT_EQ(seen.taken_at, kAskedAt);
  EXPECT_EQ(seen.processes_by_gpu.at("G0"), std::nullopt);
  EXPECT_EQ(seen.used_bytes.at("G0"), std::nullopt);
  EXPECT_THAT(seen.alive_by_lease.at("a"), ElementsAre(lease::ProcessKey{10, kStartedAt}));
}

}  // namespace
}  // namespace gpuyard::daemon
