#include "cli/kube/kubelet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "base/scratch_directory_for_tests.h"

namespace gpuyard::cli::kube {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kUuid = "GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee";

kubelet::AllocatableDevices devices(std::initializer_list<std::string> ids) {
  kubelet::AllocatableDevices all;
  for (const std::string& id : ids) all.devices.push_back({"nvidia.com/gpu", id});
  return all;
}

TEST(KubeKubelet, WholeGpusAreNamedByTheirUuid) {
  const auto uuids = whole_gpus(devices({kUuid, "MIG-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
                                         "GPU-11111111-2222-3333-4444-555555555555::0"}));
  ASSERT_TRUE(uuids);
  EXPECT_THAT(*uuids, ElementsAre(kUuid));
}

// So that a restart of the kubelet removes no taint.
TEST(KubeKubelet, AnswerWithoutGpusIsNoAnswer) {
  EXPECT_FALSE(whole_gpus(devices({})));
  EXPECT_FALSE(whole_gpus(devices({"GPU-11111111-2222-3333-4444-555555555555::0"})));
}

TEST(KubeKubelet, GpuOfferedAsSharesIsOffered) {
  const auto slices = {std::string("GPU-11111111-2222-3333-4444-555555555555::0"),
                       std::string("GPU-11111111-2222-3333-4444-555555555555::1")};
  EXPECT_FALSE(offered_gpus(devices({}))) << "as right after its start";
  EXPECT_FALSE(offered_gpus(devices(slices))) << "no whole GPU";
  const auto uuids = offered_gpus(devices({kUuid, *slices.begin(), "MIG-aaaaaaaa"}));
  ASSERT_TRUE(uuids);
  EXPECT_THAT(*uuids, ElementsAre("GPU-11111111-2222-3333-4444-555555555555", kUuid));
}

TEST(KubeKubelet, AbsentSocketIsLoggedOnceForEachCall) {
  const ScratchDirectory directory;
  const CapturedLog log;
  Kubelet absent(directory.path() + "/kubelet.sock");
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(absent.fetch_allocatable());
    EXPECT_FALSE(absent.fetch_offered());
    EXPECT_FALSE(absent.fetch_pods());
  }
  const auto is_absent = AllOf(HasSubstr("INFO "), HasSubstr("the socket does not exist"));
  EXPECT_THAT(CapturedLog::lines(),
              ElementsAre(AllOf(is_absent, HasSubstr("trusted to hide a bad GPU")),
                          AllOf(is_absent, HasSubstr("no pod is reported to the daemon"))));
}

TEST(KubeKubelet, DisabledKubeletIsNotAsked) {
  const CapturedLog log;
  Kubelet none("");
  EXPECT_THAT(CapturedLog::lines(), ElementsAre(HasSubstr("the kubelet is not asked")));
  CapturedLog::lines().clear();
  EXPECT_FALSE(none.fetch_allocatable());
  EXPECT_FALSE(none.fetch_offered());
  EXPECT_FALSE(none.fetch_pods());
  EXPECT_THAT(CapturedLog::lines(), IsEmpty());
}

}  // namespace
}  // namespace gpuyard::cli::kube
