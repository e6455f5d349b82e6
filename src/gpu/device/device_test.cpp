#include "gpu/device/device.h"

#include <gmock/gmock.h>

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

TEST(Pci, ASlotIsTheSameInEverySpelling) {
  for (const char* other : {"0000:3b:00", "00000000:3B:00.0", "0000:3b:00.0", "0:3b:0"}) {
    EXPECT_TRUE(is_same_pci_slot("0000:3b:00.0", other)) << other;
  }
  EXPECT_TRUE(is_same_pci_slot("10000:01:00", "00010000:01:00.0"));
  for (const char* other : {"0001:3b:00", "0000:3c:00", "0000:3b:01", "", "3b:00.0"}) {
    EXPECT_FALSE(is_same_pci_slot("0000:3b:00.0", other)) << other;
  }
}

TEST(Pci, MalformedAddressIsNoSlot) {
  EXPECT_TRUE(is_pci_slot("0000:3b:00"));
  for (const char* other : {"", "0000", "0000:3b", "0000:3b:", "0000:3b:00x", "0000:xx:00", "::"}) {
    EXPECT_FALSE(is_pci_slot(other)) << other;
    EXPECT_FALSE(is_same_pci_slot(other, other)) << other;
  }
}

}  // namespace

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr auto kNone = std::nullopt;

// Makes GPUs by number, each with the far ends of its links: numbers of GPUs, or names of switches.
std::vector<DeviceInfo> wired(const std::vector<std::vector<std::string>>& links) {
  const auto address = [](const std::string& number) { return "0000:0" + number + ":00.0"; };
  std::vector<DeviceInfo> gpus;
  for (std::size_t i = 0; i < links.size(); ++i) {
    DeviceInfo& gpu = gpus.emplace_back();
    gpu.pci_address = address(std::to_string(i));
    for (const std::string& link : links[i]) {
      gpu.nvlinks.push_back(link.size() == 1 ? address(link) : link);
    }
  }
  return gpus;
}

TEST(NvlinkCliques, AGpuWithoutLinksIsInNone) {
  EXPECT_THAT(nvlink_cliques(wired({{}, {}})), ElementsAre(kNone, kNone));
  EXPECT_THAT(nvlink_cliques({}), IsEmpty());
}

TEST(NvlinkCliques, NvSwitchJoinsAllAttachedGpus) {
  const std::string sw(kNvlinkSwitch);
  EXPECT_THAT(nvlink_cliques(wired({{sw}, {sw}, {sw}, {}})), ElementsAre(0, 0, 0, kNone));
}

TEST(NvlinkCliques, SharedNonGpuPeerCountsAsSwitch) {
  const auto gpus = wired({{"0000:c1:00.0", "0000:c2:00.0"}, {"0000:c2:00.0"}, {"0000:c3:00.0"}});
  EXPECT_THAT(nvlink_cliques(gpus), ElementsAre(0, 0, 1));
}

TEST(NvlinkCliques, PairsWithABridgeArePairs) {
  EXPECT_THAT(nvlink_cliques(wired({{"2"}, {"3"}, {"0"}, {"1"}})), ElementsAre(0, 1, 0, 1));
}

TEST(NvlinkCliques, OneSideOfALinkIsEnough) {
  EXPECT_THAT(nvlink_cliques(wired({{"1"}, {"0"}, {"0", "1"}, {"9"}})), ElementsAre(0, 0, 0, 1));
}

// 0 - 1 - 2: no link from 0 to 2, and 1 forwards nothing.
TEST(NvlinkCliques, GpusInARowAreNotAllLinked) {
  EXPECT_THAT(nvlink_cliques(wired({{"1"}, {"0", "2"}, {"1"}})), ElementsAre(0, 0, 1));
}

// Eight GPUs with six links each: two groups of four, and links across.
TEST(NvlinkCliques, ACubeMeshIsTwoGroupsOfFour) {
  EXPECT_THAT(nvlink_cliques(wired({{"1", "2", "3", "4"},
                                    {"0", "2", "3", "5"},
                                    {"0", "1", "3", "6"},
                                    {"0", "1", "2", "7"},
                                    {"5", "6", "7", "0"},
                                    {"4", "6", "7", "1"},
                                    {"4", "5", "7", "2"},
                                    {"4", "5", "6", "3"}})),
              ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
}

}  // namespace
}  // namespace gpuyard
