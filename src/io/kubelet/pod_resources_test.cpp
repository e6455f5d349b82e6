#include "io/kubelet/pod_resources.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "io/kubelet/wire_bytes_for_tests.h"

namespace gpuyard::kubelet {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

const std::string kUuid = "GPU-0b4a1f2e-93c6-4d02-8a8f-e1cbf99717fc";

// A ContainerResources of one GPU.
std::string container(const std::string& name, const std::vector<std::string>& ids) {
  return bytes_field(1, name) + bytes_field(2, container_devices("nvidia.com/gpu", ids)) +
         varint_field(3, 4) + bytes_field(4, bytes_field(1, "memory") + varint_field(2, 1 << 30U));
}

std::string list_of(const std::vector<std::string>& pods) {
  std::string bytes;
  for (const std::string& pod : pods) bytes += bytes_field(1, pod);
  return bytes;
}

TEST(DecodePods, GpuOfAPluginIsRead) {
  const auto pods =
      decode_pods(list_of({pod_message("ml", "train-0", {container("main", {kUuid})})}));
  ASSERT_TRUE(pods) << pods.error().text();
  ASSERT_THAT(*pods, SizeIs(1));
  const Pod& pod = pods->front();
  EXPECT_EQ(pod.namespace_name, "ml");
  EXPECT_EQ(pod.name, "train-0");
  ASSERT_THAT(pod.devices, SizeIs(1));
  EXPECT_EQ(pod.devices[0].container, "main");
  EXPECT_EQ(pod.devices[0].resource, "nvidia.com/gpu");
  EXPECT_EQ(pod.devices[0].id, kUuid);
  EXPECT_FALSE(pod.devices[0].shared);
  EXPECT_THAT(pod.claims, IsEmpty());
}

TEST(DecodePods, ClaimedDeviceIsRead) {
  const std::string claim = bytes_field(2, "one-gpu") + bytes_field(3, "ml") +
                            bytes_field(4, claim_resource("gpu.nvidia.com", "n1", "gpu-0"));
  const auto pods = decode_pods(
      list_of({pod_message("ml", "train-0", {bytes_field(1, "main") + bytes_field(5, claim)})}));
  ASSERT_TRUE(pods) << pods.error().text();
  ASSERT_THAT(pods->front().claims, SizeIs(1));
  const ClaimedDevice& claimed = pods->front().claims[0];
  EXPECT_EQ(claimed.container, "main");
  EXPECT_EQ(claimed.claim, "one-gpu");
  EXPECT_EQ(claimed.claim_namespace, "ml");
  EXPECT_EQ(claimed.driver, "gpu.nvidia.com");
  EXPECT_EQ(claimed.pool, "n1");
  EXPECT_EQ(claimed.device, "gpu-0");
}

TEST(DecodePods, ShareOfAClaimedDeviceIsMarked) {
  const std::string whole = bytes_field(4, claim_resource("gpu.nvidia.com", "n1", "gpu-0"));
  const std::string share =
      bytes_field(4, claim_resource("gpu.nvidia.com", "n1", "gpu-1") + bytes_field(5, "a671734a"));
  const auto pods = decode_pods(list_of({pod_message("ml", "a", {bytes_field(5, whole + share)})}));
  ASSERT_TRUE(pods) << pods.error().text();
  ASSERT_THAT(pods->front().claims, SizeIs(2));
  EXPECT_FALSE(pods->front().claims[0].shared);
  EXPECT_TRUE(pods->front().claims[1].shared);
}

TEST(DecodePods, SharesAreMarked) {
  const auto pods = decode_pods(list_of({pod_message(
      "ml", "a", {container("main", {kUuid + "::0", kUuid + "-4", "MIG-1", kUuid})})}));
  ASSERT_TRUE(pods);
  ASSERT_THAT(pods->front().devices, SizeIs(4));
  EXPECT_TRUE(pods->front().devices[0].shared);
  EXPECT_TRUE(pods->front().devices[1].shared);
  EXPECT_TRUE(pods->front().devices[2].shared);
  EXPECT_FALSE(pods->front().devices[3].shared);
}

TEST(DecodePods, PodsWithoutGpusAreListed) {
  const auto pods = decode_pods(list_of({pod_message("kube-system", "agent", {}),
                                         pod_message("ml", "vm", {container("main", {"kvm7"})})}));
  ASSERT_TRUE(pods);
  ASSERT_THAT(*pods, SizeIs(2));
  EXPECT_EQ(pods->front().name, "agent");
  EXPECT_THAT(pods->back().devices, IsEmpty());
}

TEST(DecodePods, EmptyListHasNoPods) {
  const auto pods = decode_pods("");
  ASSERT_TRUE(pods);
  EXPECT_THAT(*pods, IsEmpty());
}

// Protobuf allows any order.
TEST(DecodePods, NameBehindItsDevicesIsRead) {
  const std::string devices = bytes_field(2, kUuid) + bytes_field(1, "nvidia.com/gpu");
  const std::string main = bytes_field(2, devices) + bytes_field(1, "main");
  const auto pods = decode_pods(
      list_of({bytes_field(3, main) + bytes_field(2, "ml") + bytes_field(1, "train-0")}));
  ASSERT_TRUE(pods);
  EXPECT_EQ(pods->front().name, "train-0");
  ASSERT_THAT(pods->front().devices, SizeIs(1));
  EXPECT_EQ(pods->front().devices[0].container, "main");
  EXPECT_EQ(pods->front().devices[0].resource, "nvidia.com/gpu");
}

TEST(DecodePods, EachContainerKeepsItsDevices) {
  const auto pods = decode_pods(
      list_of({pod_message("ml", "a", {container("x", {kUuid}), container("y", {"MIG-1"})})}));
  ASSERT_TRUE(pods);
  ASSERT_THAT(pods->front().devices, SizeIs(2));
  EXPECT_EQ(pods->front().devices[0].container, "x");
  EXPECT_EQ(pods->front().devices[1].container, "y");
}

TEST(DecodePods, UnknownFieldsAreSkipped) {
  const std::string pod = pod_message("ml", "a", {}) + varint_field(9, 1) + bytes_field(99, "new") +
                          "\x5D\x01\x02\x03\x04" + varint_field(1, 7);
  const auto pods = decode_pods(bytes_field(7, "new") + list_of({pod}));
  ASSERT_TRUE(pods) << pods.error().text();
  EXPECT_EQ(pods->front().name, "a");
}

TEST(DecodePods, EveryTruncationOfAPodIsMalformed) {
  const std::string claim = bytes_field(2, "c") + bytes_field(4, claim_resource("d", "p", "gpu-0"));
  const std::string list =
      list_of({pod_message("ml", "train-0", {container("main", {kUuid}) + bytes_field(5, claim)})});
  ASSERT_TRUE(decode_pods(list));
  for (std::size_t length = 1; length < list.size(); ++length) {
    // A copy of the exact size: AddressSanitizer sees a read behind it.
    const auto pods = decode_pods(std::string(list, 0, length));
    ASSERT_FALSE(pods) << length;
    EXPECT_EQ(pods.error().code, Errc::invalid);
  }
}

TEST(DecodePods, TruncationInsideAMessageIsMalformed) {
  const std::string pod = pod_message("ml", "train-0", {container("main", {kUuid})});
  // The lengths around it are right.
  for (std::size_t cut = 1; cut < bytes_field(3, container("main", {kUuid})).size(); ++cut) {
    EXPECT_FALSE(decode_pods(list_of({pod.substr(0, pod.size() - cut)}))) << cut;
  }
}

TEST(DecodePods, UnnamedPodIsMalformed) {
  EXPECT_FALSE(decode_pods(list_of({pod_message("ml", "", {})})));
  EXPECT_FALSE(decode_pods(list_of({pod_message("", "a", {})})));
}

TEST(DecodePods, NameThatIsNotTextIsMalformed) {
  EXPECT_FALSE(decode_pods(list_of({pod_message("ml", "\xFF", {})})));
  EXPECT_FALSE(
      decode_pods(list_of({pod_message("ml", "a", {container("main", {"GPU-\xC0\x80"})})})));
}

TEST(DecodePods, NameThatIsTooLongIsMalformed) {
  EXPECT_TRUE(decode_pods(list_of({pod_message("ml", std::string(kMaxNameBytes, 'a'), {})})));
  EXPECT_FALSE(decode_pods(list_of({pod_message("ml", std::string(kMaxNameBytes + 1, 'a'), {})})));
}

TEST(DecodePods, TooManyPodsAreRefused) {
  std::string list;
  for (std::size_t i = 0; i < kMaxPods; ++i) list += bytes_field(1, pod_message("a", "b", {}));
  EXPECT_TRUE(decode_pods(list));
  EXPECT_FALSE(decode_pods(list + bytes_field(1, pod_message("a", "b", {}))));
}

TEST(DecodePods, TooManyDevicesAreRefused) {
  const std::vector<std::string> half(kMaxDevices / 2, "GPU-");
  const std::string pod = pod_message("a", "b", {container("c", half)});
  EXPECT_TRUE(decode_pods(list_of({pod, pod})));
  const auto pods =
      decode_pods(list_of({pod, pod, pod_message("a", "c", {container("c", {"GPU-"})})}));
  ASSERT_FALSE(pods);
  EXPECT_EQ(pods.error().text(), "malformed response: it has too many devices");
}

TEST(DecodeAllocatableDevices, OnlyGpusAreRead) {
  const auto allocatable = decode_allocatable_devices(
      bytes_field(1, container_devices("nvidia.com/gpu", {kUuid, kUuid + "::1"})) +
      bytes_field(1, container_devices("devices.kubevirt.io/kvm", {"kvm0", "kvm1"})) +
      bytes_field(2, varint(0) + varint(1)) + bytes_field(3, bytes_field(1, "memory")));
  ASSERT_TRUE(allocatable) << allocatable.error().text();
  ASSERT_THAT(allocatable->devices, SizeIs(2));
  EXPECT_EQ(allocatable->devices[0].id, kUuid);
  EXPECT_EQ(allocatable->devices[0].resource, "nvidia.com/gpu");
  EXPECT_FALSE(allocatable->devices[0].shared);
  EXPECT_TRUE(allocatable->devices[1].shared);
}

TEST(DecodeAllocatableDevices, EveryTruncationIsMalformed) {
  const std::string message = bytes_field(1, container_devices("nvidia.com/gpu", {kUuid}));
  for (std::size_t length = 1; length < message.size(); ++length) {
    EXPECT_FALSE(decode_allocatable_devices(std::string(message, 0, length))) << length;
  }
}

}  // namespace
}  // namespace gpuyard::kubelet
