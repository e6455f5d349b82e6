#include "io/kubelet/device_id.h"

namespace gpuyard::kubelet {
namespace {

constexpr std::string_view kGpuPrefix = "GPU-";
constexpr std::string_view kMigPrefix = "MIG-";
constexpr std::string_view kUuidForm = "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

bool is_hexadecimal_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool begins_with_uuid(std::string_view id) {
  if (id.size() < kUuidForm.size()) return false;
  for (std::size_t i = 0; i < kUuidForm.size(); ++i) {
    if (kUuidForm[i] == 'x' ? !is_hexadecimal_digit(id[i]) : id[i] != kUuidForm[i]) return false;
  }
  return true;
}

}  // namespace

bool is_gpu_id(std::string_view id) {
  return id.starts_with(kGpuPrefix) || id.starts_with(kMigPrefix);
}

bool is_whole_gpu(std::string_view id) {
  return id.size() == kUuidForm.size() && begins_with_uuid(id);
}

std::string_view gpu_uuid_of(std::string_view id) {
  return begins_with_uuid(id) ? id.substr(0, kUuidForm.size()) : std::string_view();
}

}  // namespace gpuyard::kubelet
