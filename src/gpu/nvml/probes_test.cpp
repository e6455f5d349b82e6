#include "gpu/nvml/probes.h"

#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "gpu/device/device.h"
#include "gpu/nvml/fake_nvml_for_tests.h"

namespace gpuyard::nvml {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Six links, of which the fourth is down.
Api linked_api() {
  Api api;
  api.nvlink_state.function = [](DeviceHandle, unsigned link, unsigned* active) {
    if (link >= 6) return kInvalidArgument;
    *active = link == 3 ? 0 : 1;
    return kSuccess;
  };
  api.nvlink_remote_pci.function = [](DeviceHandle, unsigned link, PciInfo* pci) {
    const std::string bus = "00000000:0" + std::to_string(link / 2 + 1) + ":00.0";
    return put_text("", bus, pci->bus_id, sizeof(pci->bus_id));
  };
  return api;
}

std::vector<std::string> peers(const Api& api) {
  return nvlink_peers(api, handle_of(0));
}

TEST(NvlinkPeers, AreTheGpusAtTheOtherEnds) {
  Api api = linked_api();
  api.nvlink_remote_type.function = [](DeviceHandle, unsigned, unsigned* kind) {
    return *kind = kNvlinkToGpu, kSuccess;
  };
  EXPECT_THAT(peers(api), ElementsAre("0000:01:00.0", "0000:02:00.0", "0000:03:00.0"));
}

TEST(NvlinkPeers, AnOldDriverNamesThemToo) {
  EXPECT_THAT(peers(linked_api()), ElementsAre("0000:01:00.0", "0000:02:00.0", "0000:03:00.0"));
}

TEST(NvlinkPeers, ASwitchNeedsNoAddress) {
  Api api = linked_api();
  api.nvlink_remote_pci.function = nullptr;
  api.nvlink_remote_type.function = [](DeviceHandle, unsigned, unsigned* kind) {
    return *kind = kNvlinkToSwitch, kSuccess;
  };
  EXPECT_THAT(peers(api), ElementsAre(kNvlinkSwitch));
}

TEST(NvlinkPeers, ACpuIsNoPeer) {
  Api api = linked_api();
  api.nvlink_remote_type.function = [](DeviceHandle, unsigned, unsigned* kind) {
    return *kind = 1, kSuccess;
  };
  EXPECT_THAT(peers(api), IsEmpty());
}

TEST(NvlinkPeers, ALinkThatIsDownLeadsNowhere) {
  Api api = linked_api();
  api.nvlink_state.function = [](DeviceHandle, unsigned, unsigned* active) {
    return *active = 0, kSuccess;
  };
  EXPECT_THAT(peers(api), IsEmpty());
}

TEST(NvlinkPeers, AnyUniformReturnCodeGivesEmptyList) {
  const Api api = uniform_api();
  for (ReturnCode code = kSuccess; code <= kResetTypeNotSupported; ++code) {
    uniform_code = code;
    EXPECT_THAT(peers(api), IsEmpty()) << code;
  }
  EXPECT_THAT(peers(Api{}), IsEmpty());
}

}  // namespace
}  // namespace gpuyard::nvml
