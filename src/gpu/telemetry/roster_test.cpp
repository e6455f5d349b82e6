#include "telemetry/roster.h"

#include <gtest/gtest.h>

#include "telemetry/telemetry_for_tests.h"

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
  void arrive(const std::vector<DeviceInfo>& counted) { roster_.arrive(counted, kNow, kWall); }
  // "0 GPU-a, 1 GPU-b (gone)"
  std::string list() const {
    std::string text;
    for (const DeviceInfo& info : roster_.list()) {
      text += (text.empty() ? "" : ", ") + std::to_string(info.index) + " " + info.id;
      if (info.fault) text += info.fault->detail.starts_with("no longer") ? " (gone)" : " (faulty)";
    }
    return text;
  }
  Roster roster_;
};

TEST_F(RosterTest, ListsWhatTheDriverCounts) {
  arrive({gpu(0, "GPU-a"), gpu(1, "GPU-b")});
  EXPECT_EQ(list(), "0 GPU-a, 1 GPU-b");
}

TEST_F(RosterTest, OneThatIsNotCountedAnyMoreIsStillListedWithSinceWhen) {
  RecordProperty("contract", "A10");
  arrive({gpu(0, "GPU-a"), gpu(1, "GPU-b")});
  arrive({gpu(0, "GPU-a")});
  EXPECT_EQ(list(), "0 GPU-a, 1 GPU-b (gone)");
  EXPECT_EQ(roster_.list()[1].fault,
            (Missing{MissingReason::device_lost,
                     "no longer there since 2023-11-14T22:13:20.000Z: the driver does not list "
                     "it"}));
}

TEST_F(RosterTest, AnIndexIsNeverTwoGpus) {
  arrive({gpu(0, "GPU-a"), gpu(1, "GPU-b"), gpu(2, "GPU-c")});
  arrive({gpu(0, "GPU-b"), gpu(1, "GPU-c")});
  EXPECT_EQ(list(), "0 GPU-b, 1 GPU-c, 2 GPU-a (gone)");
  arrive({});
  EXPECT_EQ(list(), "0 GPU-a (gone), 1 GPU-b (gone), 2 GPU-c (gone)");
}

TEST_F(RosterTest, OneThatComesBackUnderAnotherIndexIsTheSame) {
  arrive({gpu(0, "GPU-a"), gpu(1, "GPU-b")});
  arrive({gpu(0, "GPU-b")});
  arrive({gpu(0, "GPU-b"), gpu(1, "GPU-a")});
  EXPECT_EQ(list(), "0 GPU-b, 1 GPU-a");
}

TEST_F(RosterTest, OneThatIsGoneIsForgottenAfterADay) {
  arrive({gpu(0, "GPU-a"), gpu(1, "GPU-b")});
  arrive({gpu(0, "GPU-a")});
  EXPECT_FALSE(roster_.forget(kNow + Roster::kRemembered));
  EXPECT_TRUE(roster_.forget(kNow + Roster::kRemembered + std::chrono::seconds(1)));
  EXPECT_EQ(list(), "0 GPU-a");
}

TEST_F(RosterTest, OneThatDoesNotOpenAnyMoreKeepsItsIdentity) {
  arrive({gpu(0, "GPU-a"), gpu(1, "GPU-b")});
  arrive({gpu(0, "GPU-a"), unopened(1)});
  EXPECT_EQ(list(), "0 GPU-a, 1 GPU-b (faulty)");
  arrive({gpu(0, "GPU-a"), gpu(1, "GPU-b")});
  EXPECT_EQ(list(), "0 GPU-a, 1 GPU-b");
}

TEST_F(RosterTest, WhereTheOrderMayHaveChangedNobodyIsTakenForAnother) {
  arrive({gpu(0, "GPU-a"), gpu(1, "GPU-b")});
  arrive({gpu(0, "GPU-b"), unopened(1)});
  EXPECT_EQ(list(), "0 GPU-b, 1 index:1 (faulty), 2 GPU-a (gone)");
}

TEST_F(RosterTest, AFleetThatChangesForEverIsBounded) {
  for (int i = 0; i < 1000; ++i) arrive({gpu(0, "GPU-" + std::to_string(i))});
  EXPECT_EQ(roster_.list().size(), Roster::kMostGone + 1);
}

}  // namespace
}  // namespace gpuyard::telemetry
