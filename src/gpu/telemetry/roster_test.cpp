#include "gpu/telemetry/roster.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpu/telemetry/telemetry_for_tests.h"

namespace gpuyard::telemetry {
namespace {

constexpr WallTime kWall{std::chrono::milliseconds(1'700'000'000'000)};

DeviceInfo gpu(std::uint32_t index, const std::string& uuid) {
  return {uuid, index, uuid, "", "H100", {}};
}

DeviceInfo unopened(std::uint32_t index) {
  return {"index:" + std::to_string(index),
          index,
          "",
          "",
          "",
          Missing{MissingReason::device_lost, "GPU is lost"}};
}

class RosterTest : public ::testing::Test {
 protected:
  void arrive(const std::vector<DeviceInfo>& counted) { roster_.update(counted, kWall); }
  // Returns the list as text: "0 GPU-a, 1 GPU-b (gone)".
  std::string list() const {
    std::string text;
    for (const DeviceInfo& info : roster_.list()) {
      text += (text.empty() ? "" : ", ") + std::to_string(info.index) + " " + info.id;
      if (info.fault)
        text += info.fault->detail.starts_with("not present since") ? " (gone)" : " (faulty)";
    }
    return text;
  }
  Roster roster_;
};

TEST_F(RosterTest, DriverInventoryIsListed) {
  arrive({gpu(0, "GPU-a"), gpu(1, "GPU-b")});
  EXPECT_EQ(list(), "0 GPU-a, 1 GPU-b");
}

TEST_F(RosterTest, GoneGpuStaysListedWithTimestamp) {
  RecordProperty("contract", "A10");
  arrive({gpu(0, "GPU-a"), gpu(1, "GPU-b")});
  arrive({gpu(0, "GPU-a")});
  EXPECT_EQ(list(), "0 GPU-a, 1 GPU-b (gone)");
  EXPECT_EQ(roster_.list()[1].fault,
            (Missing{MissingReason::device_lost,
                     "not present since 2023-11-14T22:13:20.000Z: the driver does not list it"}));
}

TEST_F(RosterTest, AnIndexIsNeverTwoGpus) {
  arrive({gpu(0, "GPU-a"), gpu(1, "GPU-b"), gpu(2, "GPU-c")});
  arrive({gpu(0, "GPU-b"), gpu(1, "GPU-c")});
  EXPECT_EQ(list(), "0 GPU-b, 1 GPU-c, 2 GPU-a (gone)");
  arrive({});
  EXPECT_EQ(list(), "0 GPU-a (gone), 1 GPU-c (gone), 2 GPU-b (gone)");
}

TEST_F(RosterTest, BoardReturningUnderOtherIndexIsListedOnce) {
  arrive({gpu(0, "GPU-a"), gpu(1, "GPU-b")});
  arrive({gpu(0, "GPU-b")});
  arrive({gpu(0, "GPU-b"), gpu(1, "GPU-a")});
  EXPECT_EQ(list(), "0 GPU-b, 1 GPU-a");
}

TEST_F(RosterTest, MissingBoardIsListedUntilRemoved) {
  arrive({gpu(0, "GPU-a"), gpu(1, "GPU-b")});
  arrive({gpu(0, "GPU-a")});
  EXPECT_FALSE(roster_.remove_missing("GPU-a"));
  EXPECT_EQ(list(), "0 GPU-a, 1 GPU-b (gone)");
  EXPECT_TRUE(roster_.remove_missing("GPU-b"));
  EXPECT_EQ(list(), "0 GPU-a");
  EXPECT_FALSE(roster_.remove_missing("GPU-b"));
}

KnownBoard board(std::uint32_t index, const std::string& uuid, bool listed = true) {
  return {uuid,
          index,
          "0000:01:00.0",
          "H100",
          listed,
          kWall - std::chrono::hours(2),
          kWall - std::chrono::hours(1)};
}

TEST_F(RosterTest, ARestoredBoardIsMissingSinceLastSeen) {
  RecordProperty("contract", "A10");
  roster_.restore({board(0, "GPU-a"), board(1, "GPU-b"), board(2, "GPU-c", false)});
  EXPECT_EQ(list(), "2 GPU-c (gone)") << "the driver has not counted yet";
  arrive({gpu(0, "GPU-b")});
  EXPECT_EQ(list(), "0 GPU-b, 2 GPU-c (gone), 3 GPU-a (gone)");
  const DeviceInfo a = roster_.list()[2];
  EXPECT_EQ(
      a.fault->detail,
      "not present since 2023-11-14T21:13:20.000Z: the driver does not list it; it was GPU 0");
  EXPECT_EQ(a.former_index, 0U);
  EXPECT_EQ(own_index(a), std::nullopt);
  EXPECT_EQ(label_of(a), "GPU-a");
  EXPECT_EQ(label_of(roster_.list()[1]), "2") << "no other GPU has that index";
}

TEST_F(RosterTest, BoardsThatAreReadLateAreMissingToo) {
  arrive({gpu(0, "GPU-a")});
  roster_.restore({board(0, "GPU-a"), board(1, "GPU-b")});
  EXPECT_EQ(list(), "0 GPU-a, 1 GPU-b (gone)");
}

TEST_F(RosterTest, AnUnopenedGpuIsTheRestoredBoard) {
  roster_.restore({board(0, "GPU-a"), board(1, "GPU-b")});
  arrive({gpu(0, "GPU-a"), unopened(1)});
  EXPECT_EQ(list(), "0 GPU-a, 1 GPU-b (faulty)");
}

TEST_F(RosterTest, KnowsWhenEachBoardWasLastSeen) {
  roster_.restore({board(0, "GPU-a"), board(1, "GPU-b")});
  arrive({gpu(0, "GPU-b"), unopened(1), gpu(2, "GPU-c")});
  const auto known = roster_.known_boards(kWall);
  ASSERT_EQ(known.size(), 3U);
  EXPECT_TRUE(known[0].uuid == "GPU-b" && known[0].listed && known[0].last_seen == kWall);
  EXPECT_TRUE(known[1].uuid == "GPU-c" && known[1].listed);
  EXPECT_TRUE(known[2].uuid == "GPU-a" && !known[2].listed && known[2].index == 0);
  EXPECT_EQ(known[2].last_seen, kWall - std::chrono::hours(1));
}

TEST_F(RosterTest, UnopenableBoardKeepsItsIdentity) {
  arrive({gpu(0, "GPU-a"), gpu(1, "GPU-b")});
  arrive({gpu(0, "GPU-a"), unopened(1)});
  EXPECT_EQ(list(), "0 GPU-a, 1 GPU-b (faulty)");
  arrive({gpu(0, "GPU-a"), gpu(1, "GPU-b")});
  EXPECT_EQ(list(), "0 GPU-a, 1 GPU-b");
}

TEST_F(RosterTest, ChangedIndexOrderKeepsGpuIdentities) {
  arrive({gpu(0, "GPU-a"), gpu(1, "GPU-b")});
  arrive({gpu(0, "GPU-b"), unopened(1)});
  EXPECT_EQ(list(), "0 GPU-b, 1 index:1 (faulty), 2 GPU-a (gone)");
}

TEST_F(RosterTest, AFleetThatChangesForEverIsBounded) {
  for (int i = 0; i < 1000; ++i) arrive({gpu(0, "GPU-" + std::to_string(i))});
  EXPECT_EQ(roster_.list().size(), Roster::kMaxMissing + 1);
}

}  // namespace

}  // namespace gpuyard::telemetry
