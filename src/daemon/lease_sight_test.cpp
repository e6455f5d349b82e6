#include "daemon/lease_sight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuyard::daemon {
namespace {

using lease::Seen;
using processes::GpuUser;
using processes::ProcessRow;
using processes::ProcessTable;
using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr TimePoint kAsked{std::chrono::hours(1)};
constexpr TimePoint kStarted{std::chrono::minutes(10)};
constexpr std::uint32_t kAnna = 1000;
constexpr std::uint32_t kBen = 1001;

GpuProcess process(std::uint32_t pid, ProcessKind kind = ProcessKind::compute) {
  return {pid, kind, pid * 1000, {}};
}

DeviceState gpu(const DeviceId& id, std::vector<GpuProcess> processes, TimePoint taken = kAsked) {
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
  return {{pid, kStarted}, parent, "python3", {.uid = uid}};
}

TEST(Lists, AreOfWhoComputes) {
  const auto snapshot = snapshot_of({gpu("G0", {process(7), process(8, ProcessKind::graphics),
                                                process(9, ProcessKind::compute_and_graphics)})});
  const auto lists = lists_in(snapshot, {"G0"}, kAsked);
  EXPECT_THAT(*lists.computing.at("G0"),
              ElementsAre(process(7), process(9, ProcessKind::compute_and_graphics)));
  EXPECT_THAT(lists.listed, ElementsAre(Pair(7, kAsked), Pair(9, kAsked)));
  EXPECT_EQ(lists.used_bytes.at("G0"), 5'000'000 - 8'000) << "but for what is drawn";
}

TEST(Lists, AListThatCannotBeHadIsNotEmpty) {
  DeviceState never_read;
  never_read.info.id = "G0";
  DeviceState refused = never_read;
  refused.info.id = "G1";
  refused.sample.set(ProcessList{kAsked, Missing{MissingReason::timed_out, "no answer"}});
  DeviceState hangs = gpu("G2", {process(7)});
  hangs.condition = DeviceCondition::unresponsive;
  const auto snapshot = snapshot_of({never_read, refused, hangs});
  const auto lists = lists_in(snapshot, {"G0", "G1", "G2", "G3"}, kAsked);
  for (const DeviceId id : {"G0", "G1", "G2", "G3"}) {
    EXPECT_EQ(lists.computing.at(id), std::nullopt) << id;
    EXPECT_EQ(lists.used_bytes.at(id), std::nullopt) << id;
  }
}

TEST(Lists, WithoutADriverThereAreNone) {
  auto snapshot = snapshot_of({gpu("G0", {process(7)})});
  snapshot.driver.initialised = false;
  EXPECT_EQ(lists_in(snapshot, {"G0"}, kAsked).computing.at("G0"), std::nullopt);
}

TEST(Lists, AreAsOldAsTheOldestOfThem) {
  const auto old = kAsked - std::chrono::seconds(4);
  const auto snapshot = snapshot_of({gpu("G0", {process(7)}), gpu("G1", {process(7)}, old),
                                     gpu("G2", {}, old - std::chrono::hours(1))});
  const auto lists = lists_in(snapshot, {"G0", "G1"}, kAsked);
  EXPECT_EQ(lists.taken, old);
  EXPECT_THAT(lists.listed, ElementsAre(Pair(7, kAsked))) << "the newest list with it";
}

class SightTest : public ::testing::Test {
 protected:
  SightTest() {
    evidence_.table = ProcessTable{{ProcessRow{.process = {1, TimePoint()}},
                                    ProcessRow{.process = {10, kStarted}, .parent = 1},
                                    ProcessRow{.process = {11, kStarted}, .parent = 10},
                                    ProcessRow{.process = {20, kStarted}, .parent = 1}}};
    evidence_.gpu_users.emplace(11, user(11, 10, kAnna));
    evidence_.gpu_users.emplace(20, user(20, 1, kBen));
    evidence_.gpu_users.emplace(30, Error{Errc::not_found, "not visible"});
  }
  lease::Sight sight(const Snapshot& snapshot) const {
    return sight_of(lists_in(snapshot, {"G0", "G1"}, kAsked), suspects_, lessees_of(suspects_),
                    evidence_);
  }

  std::vector<lease::Suspect> suspects_{
      {.lease = "a", .uid = kAnna, .gpus = {"G0"}, .processes = {{10, kStarted}}}};
  processes::Evidence evidence_;
};

TEST_F(SightTest, SaysOfEachProcessWhoseItIs) {
  const auto seen = sight(snapshot_of({gpu("G0", {process(11), process(20), process(30)})}));
  const Seen member{.pid = 11,
                    .verdict = Seen::Verdict::member,
                    .started = kStarted,
                    .lease = "a",
                    .uid = kAnna,
                    .command = "python3",
                    .memory_bytes = 11'000};
  const Seen outsider{.pid = 20,
                      .verdict = Seen::Verdict::outsider,
                      .started = kStarted,
                      .uid = kBen,
                      .command = "python3",
                      .memory_bytes = 20'000};
  const Seen unknown{.pid = 30, .verdict = Seen::Verdict::unknown, .memory_bytes = 30'000};
  EXPECT_THAT(*seen.on_gpus.at("G0"), ElementsAre(member, outsider, unknown));
  EXPECT_EQ(seen.on_gpus.at("G1"), std::nullopt);
  EXPECT_EQ(seen.used_bytes.at("G0"), 5'000'000);
}

TEST_F(SightTest, AMemberIsAnOutsiderOnAGpuThatItsLeaseDoesNotHave) {
  const auto seen = sight(snapshot_of({gpu("G1", {process(11)})}));
  EXPECT_EQ(seen.on_gpus.at("G1")->front().verdict, Seen::Verdict::outsider);
  EXPECT_EQ(seen.on_gpus.at("G1")->front().lease, "");
}

TEST_F(SightTest, HasEveryLivingProcessOfALease) {
  EXPECT_THAT(sight(snapshot_of({})).alive,
              ElementsAre(Pair("a", UnorderedElementsAre(lease::Process{10, kStarted},
                                                         lease::Process{11, kStarted}))));
}

TEST_F(SightTest, OneThatCannotBeJudgedIsNoOutsider) {
  evidence_.table = Error{Errc::unavailable, "no /proc"};
  suspects_[0].processes = {{10, kStarted}};
  const auto seen = sight(snapshot_of({gpu("G0", {process(11)}), gpu("G1", {process(20)})}));
  EXPECT_EQ(seen.on_gpus.at("G0")->front().verdict, Seen::Verdict::unknown);
  EXPECT_EQ(seen.on_gpus.at("G1")->front().verdict, Seen::Verdict::outsider) << "nobody has it";
  EXPECT_THAT(seen.alive.at("a"), ElementsAre(lease::Process{10, kStarted}));
}

TEST_F(SightTest, BlindNobodyIsGoneAndNoListIsEmpty) {
  const auto seen = blind_sight(suspects_, {"G0"}, kAsked);
  EXPECT_EQ(seen.taken, kAsked);
  EXPECT_EQ(seen.on_gpus.at("G0"), std::nullopt);
  EXPECT_EQ(seen.used_bytes.at("G0"), std::nullopt);
  EXPECT_THAT(seen.alive.at("a"), ElementsAre(lease::Process{10, kStarted}));
}

}  // namespace
}  // namespace gpuyard::daemon
