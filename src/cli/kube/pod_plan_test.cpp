#include "cli/kube/pod_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "faces/protocol/bounds.h"

namespace gpuyard::cli::kube {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr const char* kFirstUuid = "GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeee0";
constexpr const char* kSecondUuid = "GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeee1";
constexpr const char* kAgentPod = "gpuyard/agent";

kubelet::AssignedDevice assigned(const std::string& id, const std::string& container,
                                 bool shared = false) {
  kubelet::AssignedDevice device;
  device.resource = "nvidia.com/gpu";
  device.id = id;
  device.shared = shared;
  device.container = container;
  return device;
}
kubelet::ClaimedDevice claimed(const std::string& device, bool shared = false) {
  return {"main", "claim", "ml", "gpu.nvidia.com", "n1", device, shared};
}
ListedPod listed(const kubelet::Pod& pod, const std::vector<SliceDevice>& devices = {}) {
  return listed_pods({pod}, devices).begin()->second;
}

TEST(KubeListedPods, WholeGpusOfAPluginAreNamedWithTheirContainers) {
  const auto pods = listed_pods({{"ml",
                                  "trainer-0",
                                  {assigned(kSecondUuid, "main"), assigned(kFirstUuid, "main"),
                                   assigned("GPU-x::0", "sidecar", true)},
                                  {}},
                                 {"gpuyard", "agent", {}, {}}},
                                {});
  EXPECT_THAT(pods,
              ElementsAre(Pair("gpuyard/agent", ListedPod{}),
                          Pair("ml/trainer-0", ListedPod{{kFirstUuid, kSecondUuid}, "main"})));
}

TEST(KubeListedPods, SharesOfGpusAreLeftOut) {
  const std::vector<SliceDevice> devices{{"n1", "gpu.nvidia.com", "n1", "gpu-0", "GPU-a"},
                                         {"n1", "gpu.nvidia.com", "n1", "mig-0", "GPU-b", true},
                                         {"n1", "gpu.nvidia.com", "n1", "nic-0", ""}};
  const auto pod = listed({"ml",
                           "shared",
                           {assigned("MIG-1", "main", true), assigned("GPU-x-4", "main", true)},
                           {claimed("gpu-0", true), claimed("mig-0"), claimed("nic-0")}},
                          devices);
  EXPECT_EQ(pod, ListedPod{});
}

TEST(KubeListedPods, ClaimedDeviceIsTheGpuThatItsSliceNames) {
  const std::vector<SliceDevice> devices{{"n1", "gpu.nvidia.com", "n2", "gpu-0", "GPU-other"},
                                         {"n1", "gpu.nvidia.com", "n1", "gpu-0", "GPU-a"}};
  EXPECT_EQ(listed({"ml", "dra", {}, {claimed("gpu-0")}}, devices), (ListedPod{{"GPU-a"}, "main"}));
}

TEST(KubeListedPods, DeviceWithoutSliceMakesItIncomplete) {
  EXPECT_EQ(listed({"ml", "dra", {}, {claimed("gpu-0")}}), (ListedPod{{}, "", false}));
}

TEST(KubeListedPods, PodsOfOneNameAreOne) {
  const auto pods = listed_pods({{"ml", "a", {assigned(kFirstUuid, "main")}, {}},
                                 {"ml", "a", {assigned(kSecondUuid, "main")}, {}}},
                                {});
  EXPECT_THAT(pods, ElementsAre(Pair("ml/a", ListedPod{{kFirstUuid, kSecondUuid}, "main"})));
}

TEST(KubeListedPods, NoteIsCutAtItsBound) {
  kubelet::Pod pod{"ml", "wide", {}, {}};
  for (int i = 0; i < 40; ++i) {
    pod.devices.push_back(assigned(kFirstUuid, "container-" + std::to_string(i)));
  }
  EXPECT_LE(listed(pod).note.size(), protocol::kMaxNoteBytes);
}

class KubePodPlan : public testing::Test {
 protected:
  KubePodPlan() { listed_[kAgentPod] = {}; }

  void add(const std::string& pod, std::set<std::string> uuids, bool is_complete = true) {
    listed_[pod] = {std::move(uuids), "main", is_complete};
  }
  // As the next list of the kubelet.
  std::vector<PodReport> plan(Duration later = seconds(5)) {
    now_ += later;
    return plan_pods(&listed_, leased_, own_pod_, absences_, now_);
  }
  // A list that the kubelet does not send.
  void miss() {
    EXPECT_THAT(plan_pods(nullptr, leased_, own_pod_, absences_, now_ += seconds(5)), IsEmpty());
  }
  static PodReport begin(const std::string& pod, std::set<std::string> uuids) {
    return BeginPod{pod, std::move(uuids), "main"};
  }
  static PodReport end(const std::string& pod) { return EndPod{pod}; }

  ListedPods listed_;
  LeasedPods leased_;
  Absences absences_;
  std::string own_pod_ = kAgentPod;
  TimePoint now_{std::chrono::hours(1)};
};

TEST_F(KubePodPlan, PodWithGpusIsReportedAtOnce) {
  add("ml/a", {"GPU-0", "GPU-1"});
  add("ml/without", {});
  EXPECT_THAT(plan(), ElementsAre(begin("ml/a", {"GPU-0", "GPU-1"})));
  apply_report(leased_, begin("ml/a", {"GPU-0", "GPU-1"}));
  EXPECT_THAT(plan(), IsEmpty());
}

TEST_F(KubePodPlan, OtherGpusUnderTheNameAreReportedAtOnce) {
  leased_["ml/a"] = {"GPU-0"};
  add("ml/a", {"GPU-1"});
  EXPECT_THAT(plan(), ElementsAre(begin("ml/a", {"GPU-1"})));
}

TEST_F(KubePodPlan, PodMissingFromTwoListsIsGone) {
  leased_ = {{"ml/a", {"GPU-0"}}, {"ml/b", {"GPU-1"}}};
  add("ml/b", {"GPU-1"});
  EXPECT_THAT(plan(), IsEmpty());
  EXPECT_THAT(plan(seconds(4)), IsEmpty()) << "too soon";
  EXPECT_THAT(plan(seconds(1)), ElementsAre(end("ml/a")));
  apply_report(leased_, end("ml/a"));
  EXPECT_THAT(plan(), IsEmpty());
}

TEST_F(KubePodPlan, PodThatComesBackIsCountedAnew) {
  leased_["ml/a"] = {"GPU-0"};
  EXPECT_THAT(plan(), IsEmpty());
  add("ml/a", {"GPU-0"});
  EXPECT_THAT(plan(), IsEmpty());
  listed_.erase("ml/a");
  EXPECT_THAT(plan(), IsEmpty());
  EXPECT_THAT(plan(), ElementsAre(end("ml/a")));
}

// A kubelet that restarts lists no pods until it has them from the API server.
TEST_F(KubePodPlan, EmptyListsEndNoLease) {
  own_pod_.clear();
  leased_["ml/a"] = {"GPU-0"};
  listed_.clear();
  for (int i = 0; i < 5; ++i) EXPECT_THAT(plan(), IsEmpty());
  listed_["ml/other"] = {};
  EXPECT_THAT(plan(), IsEmpty());
  EXPECT_THAT(plan(), ElementsAre(end("ml/a")));
}

TEST_F(KubePodPlan, ListsWithoutTheAgentsOwnPodAreNotTrusted) {
  leased_["ml/a"] = {"GPU-0"};
  listed_.clear();
  add("ml/new", {"GPU-1"});
  for (int i = 0; i < 5; ++i) EXPECT_THAT(plan(), IsEmpty());
}

TEST_F(KubePodPlan, MissedListStartsTheAbsenceAnew) {
  leased_["ml/a"] = {"GPU-0"};
  EXPECT_THAT(plan(), IsEmpty());
  miss();
  EXPECT_THAT(plan(), IsEmpty());
  const ListedPod own = listed_[kAgentPod];
  listed_.erase(kAgentPod);
  EXPECT_THAT(plan(), IsEmpty());
  listed_[kAgentPod] = own;
  EXPECT_THAT(plan(), IsEmpty());
  EXPECT_THAT(plan(), ElementsAre(end("ml/a")));
}

// A kubelet that has just started may not have restored the devices yet. Later, it is another pod
// of that name, or a finished one that an old kubelet still lists.
TEST_F(KubePodPlan, PodWithoutItsGpusHasLostThemAfterAMinute) {
  leased_["ml/a"] = {"GPU-0"};
  add("ml/a", {});
  for (int i = 0; i < 12; ++i) EXPECT_THAT(plan(), IsEmpty());
  EXPECT_THAT(plan(), ElementsAre(end("ml/a")));
}

TEST_F(KubePodPlan, PodThatGetsItsGpusBackHasLostNone) {
  leased_["ml/a"] = {"GPU-0"};
  for (int i = 0; i < 3; ++i) {
    add("ml/a", {});
    for (int j = 0; j < 12; ++j) EXPECT_THAT(plan(), IsEmpty());
    add("ml/a", {"GPU-0"});
    EXPECT_THAT(plan(), IsEmpty());
  }
}

TEST_F(KubePodPlan, PodMissingAfterItLacksItsGpusIsCountedAnew) {
  leased_["ml/a"] = {"GPU-0"};
  add("ml/a", {});
  for (int i = 0; i < 5; ++i) EXPECT_THAT(plan(), IsEmpty());
  listed_.erase("ml/a");
  EXPECT_THAT(plan(), IsEmpty());
  EXPECT_THAT(plan(), ElementsAre(end("ml/a")));
}

TEST_F(KubePodPlan, FewerGpusAreReportedWithTheSecondList) {
  leased_["ml/a"] = {"GPU-0", "GPU-1"};
  add("ml/a", {"GPU-0"});
  EXPECT_THAT(plan(), IsEmpty());
  add("ml/a", {"GPU-0", "GPU-1"});
  EXPECT_THAT(plan(), IsEmpty()) << "the first list lacked a device";
  add("ml/a", {"GPU-0"});
  EXPECT_THAT(plan(), IsEmpty());
  EXPECT_THAT(plan(), ElementsAre(begin("ml/a", {"GPU-0"})));
}

TEST_F(KubePodPlan, UnreadSliceTakesNoGpuAway) {
  leased_["ml/a"] = {"GPU-0", "GPU-1"};
  add("ml/a", {"GPU-0"}, false);
  EXPECT_THAT(plan(), IsEmpty());
  add("ml/a", {"GPU-0", "GPU-2"}, false);
  EXPECT_THAT(plan(), ElementsAre(begin("ml/a", {"GPU-0", "GPU-2"})));
}

// Otherwise two pods would end each other's lease with each list.
TEST_F(KubePodPlan, GpuOfSeveralPodsStaysWithThePodThatWasReportedFirst) {
  leased_["ml/b"] = {"GPU-0"};
  add("ml/a", {"GPU-0", "GPU-1"});
  add("ml/b", {"GPU-0"});
  EXPECT_THAT(plan(), ElementsAre(begin("ml/a", {"GPU-1"})));
  leased_.clear();
  EXPECT_THAT(plan(), ElementsAre(begin("ml/a", {"GPU-1"})));
}

TEST_F(KubePodPlan, GpuOfAGonePodGoesToTheNextAtOnce) {
  leased_ = {{"ml/a", {"GPU-0", "GPU-1"}}, {"ml/c", {"GPU-2"}}};
  add("ml/b", {"GPU-1"});
  add("ml/c", {"GPU-2"});
  EXPECT_THAT(plan(), ElementsAre(begin("ml/b", {"GPU-1"})));
  apply_report(leased_, begin("ml/b", {"GPU-1"}));
  EXPECT_THAT(leased_,
              ElementsAre(Pair("ml/b", ElementsAre("GPU-1")), Pair("ml/c", ElementsAre("GPU-2"))));
  EXPECT_THAT(plan(), IsEmpty()) << "the daemon has ended ml/a";
}

}  // namespace
}  // namespace gpuyard::cli::kube
