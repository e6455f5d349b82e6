// Tests which NVLinks are reported as lost.
#include "gpu/device/nvlinks.h"

#include <gtest/gtest.h>

#include <array>

namespace gpuyard {
namespace {

using std::chrono::seconds;

class NvlinkTrackerTest : public ::testing::Test {
 protected:
  void link(std::uint16_t number, bool up) {
    gpu_.sample.set({Metric::nvlink_active, number, now_, std::int64_t{up ? 1 : 0}});
  }
  std::optional<LostNvlinks> update() {
    now_ += seconds(1);
    return tracker_.update(gpu_, now_);
  }

  DeviceState gpu_;
  NvlinkTracker tracker_;
  TimePoint now_{seconds(1000)};
};

TEST_F(NvlinkTrackerTest, NeverUpLinkIsNotLost) {
  for (std::uint16_t number = 0; number < 4; ++number) link(number, number < 2);
  const auto found = update();
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->down.empty());
  EXPECT_EQ(found->up, 2U);
  EXPECT_EQ(found->all, 4U);
}

TEST_F(NvlinkTrackerTest, AllLinksThatWereUpAreLost) {
  for (std::uint16_t number = 0; number < 4; ++number) link(number, true);
  update();
  for (std::uint16_t number = 0; number < 4; ++number) link(number, false);
  const auto down_since = now_ + seconds(1);
  update();
  const auto found = update();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->down, (std::vector<std::uint16_t>{0, 1, 2, 3}));
  EXPECT_EQ(found->since, down_since);
  EXPECT_EQ(found->up, 0U);
}

TEST_F(NvlinkTrackerTest, RestoredLinkIsNotLost) {
  link(0, true);
  update();
  link(0, false);
  EXPECT_EQ(update()->down.size(), 1U);
  link(0, true);
  EXPECT_TRUE(update()->down.empty());
}

TEST_F(NvlinkTrackerTest, FailedReadKeepsLastLinkState) {
  link(0, true);
  update();
  gpu_.sample.set({Metric::nvlink_active, 0, now_, Missing{MissingReason::failed, ""}});
  EXPECT_FALSE(update());
  link(0, false);
  EXPECT_EQ(update()->down.size(), 1U);
  gpu_.condition = DeviceCondition::unresponsive;
  EXPECT_FALSE(update());
}

TEST_F(NvlinkTrackerTest, AreNotJudgedInMigMode) {
  link(0, true);
  update();
  link(0, false);
  gpu_.sample.set({Metric::mig_mode, 0, now_, std::int64_t{1}});
  EXPECT_FALSE(update());
}

TEST(FormatLinks, JoinsNeighbours) {
  EXPECT_EQ(format_links(std::array<std::uint16_t, 1>{3}), "3");
  EXPECT_EQ(format_links(std::array<std::uint16_t, 5>{0, 4, 5, 6, 9}), "0, 4-6, 9");
  EXPECT_EQ(format_links({}), "");
}

}  // namespace
}  // namespace gpuyard
