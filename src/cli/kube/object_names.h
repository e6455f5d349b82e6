// The names that a node's objects have at Kubernetes' API server. Pure: two agents on one node give
// the same object the same name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpuyard::cli::kube {

inline constexpr std::size_t kMaxNameBytes = 253;  // of an object
inline constexpr std::size_t kMaxLabelBytes = 63;  // of a label's value and of a taint's

// A device that a DRA driver offers in a ResourceSlice, and the GPU that it is or belongs to.
struct SliceDevice {
  std::string node;  // the slice's spec.nodeName
  std::string driver;
  std::string pool;
  std::string device;
  std::string uuid;      // of the GPU, also for a partition of it; empty: the driver does not say
  bool is_part = false;  // a partition, such as a MIG device: others may have the rest of the GPU

  friend bool operator==(const SliceDevice&, const SliceDevice&) = default;
};

// Returns "gpuyard-NODE-5f3c0a91". The digits are the hash of driver, pool, device and UUID, so
// that another board in the same slot gets another name. A node's name that does not fit is hashed,
// too.
std::string device_rule_name(std::string_view node, const SliceDevice&);

// Returns "NODE.17a4c0ffee", as Kubernetes' own clients name an Event: the digits are nanoseconds
// since 1970. A node's name that does not fit is hashed.
std::string event_name(std::string_view node, std::uint64_t nanoseconds);

// Returns the value of the label gpuyard.io/node: the node's name, or its hash if it does not fit.
std::string node_label(std::string_view node);

// Returns the word as a taint may have it: at most 63 bytes of letters, digits, '-', '_' and '.',
// with a letter or a digit at both ends.
std::string taint_value(std::string_view word);

// Returns "XidFatal" for "xid-fatal", as the reason of a condition is written.
std::string camel_case(std::string_view rule);

}  // namespace gpuyard::cli::kube
