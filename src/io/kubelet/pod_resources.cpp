#include "io/kubelet/pod_resources.h"

#include <cstdint>
#include <utility>

#include "base/text.h"
#include "io/kubelet/device_id.h"
#include "io/kubelet/wire_reader.h"

namespace gpuyard::kubelet {
namespace {

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_sequence_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

// Decodes one response. Above each function stand the fields that it reads, as api.proto numbers
// them. They may come in any order: a name is copied to its devices once the message around them
// has been read. After the first problem nothing more is read.
class Decoder {
 public:
  // ListPodResourcesResponse: 1 pod_resources.
  std::vector<Pod> read_pods(std::string_view message) {
    std::vector<Pod> pods;
    each_field(message, [&](std::uint32_t number, std::string_view bytes) {
      if (number != 1) return;
      if (pods.size() == kMaxPods) return fail("it has too many pods");
      read_pod(bytes, pods.emplace_back());
    });
    return pods;
  }

  // AllocatableResourcesResponse: 1 devices.
  AllocatableDevices read_allocatable(std::string_view message) {
    AllocatableDevices allocatable;
    each_field(message, [&](std::uint32_t number, std::string_view bytes) {
      if (number == 1) read_devices(bytes, allocatable.devices);
    });
    return allocatable;
  }

  // Why the message cannot be used; "" if it can.
  std::string_view problem() const { return problem_; }

 private:
  // Keeps the first problem.
  void fail(std::string_view problem) {
    if (problem_.empty()) problem_ = problem;
  }

  // All that is read here is text or a message. A known number with another type is an unknown
  // field, as for every reader of protobuf.
  template <class OnField>
  void each_field(std::string_view message, OnField on_field) {
    WireReader reader(message);
    while (const auto field = reader.next()) {
      if (field->type == WireType::bytes) on_field(field->number, field->bytes);
      if (!problem_.empty()) return;
    }
    if (reader.is_malformed()) fail("it is damaged or incomplete");
  }

  void read_text(std::string_view bytes, std::string& text) {
    if (bytes.size() > kMaxNameBytes) return fail("a name in it is too long");
    if (!is_utf8(bytes)) return fail("a name in it is not UTF-8");
    text = bytes;
  }

  void count_device() {
    if (++devices_ > kMaxDevices) fail("it has too many devices");
  }

  // PodResources: 1 name, 2 namespace, 3 containers.
  void read_pod(std::string_view message, Pod& pod) {
    each_field(message, [&](std::uint32_t number, std::string_view bytes) {
      if (number == 1) read_text(bytes, pod.name);
      if (number == 2) read_text(bytes, pod.namespace_name);
      if (number == 3) read_container(bytes, pod);
    });
    if (pod.name.empty() || pod.namespace_name.empty()) fail("a pod in it has no name");
  }

  // ContainerResources: 1 name, 2 devices, 5 dynamic_resources.
  void read_container(std::string_view message, Pod& pod) {
    const std::size_t first_device = pod.devices.size();
    const std::size_t first_claim = pod.claims.size();
    std::string name;
    each_field(message, [&](std::uint32_t number, std::string_view bytes) {
      if (number == 1) read_text(bytes, name);
      if (number == 2) read_devices(bytes, pod.devices);
      if (number == 5) read_claim(bytes, pod.claims);
    });
    for (std::size_t i = first_device; i < pod.devices.size(); ++i) pod.devices[i].container = name;
    for (std::size_t i = first_claim; i < pod.claims.size(); ++i) pod.claims[i].container = name;
  }

  // ContainerDevices: 1 resource_name, 2 device_ids. Appends the GPUs.
  template <class Device>
  void read_devices(std::string_view message, std::vector<Device>& devices) {
    const std::size_t first = devices.size();
    std::string resource;
    each_field(message, [&](std::uint32_t number, std::string_view bytes) {
      if (number == 1) read_text(bytes, resource);
      if (number != 2 || !is_gpu_id(bytes)) return;
      count_device();
      Device& device = devices.emplace_back();
      read_text(bytes, device.id);
      device.shared = !is_whole_gpu(device.id);
    });
    for (std::size_t i = first; i < devices.size(); ++i) devices[i].resource = resource;
  }

  // DynamicResource: 2 claim_name, 3 claim_namespace, 4 claim_resources.
  void read_claim(std::string_view message, std::vector<ClaimedDevice>& claims) {
    const std::size_t first = claims.size();
    std::string name;
    std::string namespace_name;
    each_field(message, [&](std::uint32_t number, std::string_view bytes) {
      if (number == 2) read_text(bytes, name);
      if (number == 3) read_text(bytes, namespace_name);
      if (number == 4) read_claimed_device(bytes, claims);
    });
    for (std::size_t i = first; i < claims.size(); ++i) {
      claims[i].claim = name;
      claims[i].claim_namespace = namespace_name;
    }
  }

  // ClaimResource: 2 driver_name, 3 pool_name, 4 device_name, 5 share_id.
  void read_claimed_device(std::string_view message, std::vector<ClaimedDevice>& claims) {
    ClaimedDevice claimed;
    each_field(message, [&](std::uint32_t number, std::string_view bytes) {
      if (number == 2) read_text(bytes, claimed.driver);
      if (number == 3) read_text(bytes, claimed.pool);
      if (number == 4) read_text(bytes, claimed.device);
      if (number == 5) claimed.shared = true;
    });
    if (claimed.device.empty()) return;
    count_device();
    claims.push_back(std::move(claimed));
  }

  std::string_view problem_;
  std::size_t devices_ = 0;
};

Error malformed_error(std::string_view problem) {
  return Error{Errc::invalid, "malformed response", std::string(problem)};
}

}  // namespace

Result<std::vector<Pod>> decode_pods(std::string_view message) {
  Decoder decoder;
  auto pods = decoder.read_pods(message);
  if (!decoder.problem().empty()) return malformed_error(decoder.problem());
  return pods;
}

Result<AllocatableDevices> decode_allocatable_devices(std::string_view message) {
  Decoder decoder;
  auto allocatable = decoder.read_allocatable(message);
  if (!decoder.problem().empty()) return malformed_error(decoder.problem());
  return allocatable;
}

}  // namespace gpuyard::kubelet
