// Writes protobuf's wire format, as a kubelet would.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpuyard::kubelet {

inline std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7U) bytes += static_cast<char>(value | 0x80U);
  return bytes + static_cast<char>(value);
}

inline std::string varint_field(std::uint32_t number, std::uint64_t value) {
  return varint(std::uint64_t{number} << 3U) + varint(value);
}

// A string or a message.
inline std::string bytes_field(std::uint32_t number, std::string_view bytes) {
  return varint((std::uint64_t{number} << 3U) | 2U) + varint(bytes.size()) + std::string(bytes);
}

inline std::string group_begin(std::uint32_t number) {
  return varint((std::uint64_t{number} << 3U) | 3U);
}
inline std::string group_end(std::uint32_t number) {
  return varint((std::uint64_t{number} << 3U) | 4U);
}

inline std::string container_devices(std::string_view resource,
                                     const std::vector<std::string>& ids) {
  std::string bytes = bytes_field(1, resource);
  for (const std::string& id : ids) bytes += bytes_field(2, id);
  // Topology: a NUMA node.
  return bytes + bytes_field(3, bytes_field(1, varint_field(1, 1)));
}

inline std::string claim_resource(std::string_view driver, std::string_view pool,
                                  std::string_view device) {
  return bytes_field(1, bytes_field(1, "nvidia.com/gpu=0")) + bytes_field(2, driver) +
         bytes_field(3, pool) + bytes_field(4, device);
}

// `containers`: encoded ContainerResources.
inline std::string pod_message(std::string_view namespace_name, std::string_view name,
                               const std::vector<std::string>& containers) {
  std::string bytes = bytes_field(1, name) + bytes_field(2, namespace_name);
  for (const std::string& container : containers) bytes += bytes_field(3, container);
  return bytes;
}

}  // namespace gpuyard::kubelet
