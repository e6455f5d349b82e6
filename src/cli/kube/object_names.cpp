#include "cli/kube/object_names.h"

#include <fmt/format.h>

#include "base/sha256.h"
#include "base/text.h"

namespace gpuyard::cli::kube {
namespace {

constexpr std::size_t kDeviceHashDigits = 8;
constexpr std::size_t kNodeHashDigits = 32;

// Returns the first hex digits of the text's SHA-256.
std::string hash_of(std::string_view text, std::size_t digits) {
  return sha256_hex(text).substr(0, digits);
}

}  // namespace

std::string device_rule_name(std::string_view node, const SliceDevice& device) {
  // No name of Kubernetes and no UUID has a line end, so that two devices never give one text.
  const std::string hash =
      hash_of(fmt::format("{}\n{}\n{}\n{}", device.driver, device.pool, device.device, device.uuid),
              kDeviceHashDigits);
  std::string name = fmt::format("gpuyard-{}-{}", node, hash);
  if (name.size() <= kMaxNameBytes) return name;
  return fmt::format("gpuyard-{}-{}", hash_of(node, kNodeHashDigits), hash);
}

std::string event_name(std::string_view node, std::uint64_t nanoseconds) {
  std::string name = fmt::format("{}.{:x}", node, nanoseconds);
  if (name.size() <= kMaxNameBytes) return name;
  return fmt::format("{}.{:x}", hash_of(node, kNodeHashDigits), nanoseconds);
}

std::string node_label(std::string_view node) {
  return node.size() <= kMaxLabelBytes ? std::string(node) : hash_of(node, kNodeHashDigits);
}

std::string taint_value(std::string_view word) {
  std::string value(word.substr(0, kMaxLabelBytes));
  for (char& c : value) {
    if (!is_alphanumeric(c) && c != '-' && c != '_' && c != '.') c = '-';
  }
  while (!value.empty() && !is_alphanumeric(value.back())) value.pop_back();
  std::size_t first = 0;
  while (first < value.size() && !is_alphanumeric(value[first])) ++first;
  return value.substr(first);
}

std::string camel_case(std::string_view rule) {
  std::string word;
  bool begins = true;
  for (const char c : rule) {
    if (!is_alphanumeric(c)) {
      begins = true;
      continue;
    }
    word += begins ? to_upper(c) : c;
    begins = false;
  }
  return word.empty() || is_letter(word.front()) ? word : "Rule" + word;
}

}  // namespace gpuyard::cli::kube
