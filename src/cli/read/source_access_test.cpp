#include "cli/read/source_access.h"

#include <gtest/gtest.h>

#include "cli/read/devices_for_tests.h"

namespace gpuyard::cli {
namespace {

protocol::Snapshot three() {
  auto snapshot = snapshot_with({busy(0), busy(1), busy(2)});
  snapshot.devices[0].pci_address = "0000:11:00.0";
  snapshot.devices[1].pci_address = "0000:14:00.0";
  return snapshot;
}

std::vector<std::uint32_t> kept(std::string_view names) {
  auto snapshot = three();
  EXPECT_TRUE(keep_only(snapshot, names).ok()) << names;
  std::vector<std::uint32_t> indexes;
  for (const auto& device : snapshot.devices) indexes.push_back(device.index);
  return indexes;
}

TEST(GpuSelection, AGpuHasFourNames) {
  using Indexes = std::vector<std::uint32_t>;
  EXPECT_EQ(kept("1"), Indexes{1});
  EXPECT_EQ(kept("gpu-1"), Indexes{1});
  EXPECT_EQ(kept("0000:14:00.0"), Indexes{1});
  EXPECT_EQ(kept("00000000:14:00.0"), Indexes{1});
}

TEST(GpuSelection, SeveralNamesKeepGivenOrder) {
  EXPECT_EQ(kept("2, 0"), (std::vector<std::uint32_t>{2, 0}));
}

TEST(GpuSelection, UnknownGpuNameIsNotFound) {
  for (const char* names : {"3", "", "0,abc", "GPU-", "-1"}) {
    auto snapshot = three();
    const auto result = keep_only(snapshot, names);
    ASSERT_FALSE(result.ok()) << names;
    EXPECT_EQ(result.error().code, Errc::not_found);
  }
}

}  // namespace
}  // namespace gpuyard::cli
