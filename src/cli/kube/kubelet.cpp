#include "cli/kube/kubelet.h"

#include <utility>

#include "base/log.h"
#include "io/kubelet/client.h"
#include "io/kubelet/device_id.h"

namespace gpuyard::cli::kube {

Kubelet::Kubelet(std::string socket) : socket_(std::move(socket)) {
  if (socket_.empty()) log::info("the kubelet is not asked which GPUs a device plugin offers");
}

std::optional<std::set<std::string>> Kubelet::fetch_allocatable() {
  if (socket_.empty()) return std::nullopt;
  const auto devices = kubelet::fetch_allocatable_devices(socket_);
  if (!devices) {
    log_change(devices.error().code == Errc::not_found, devices.error().text());
    return std::nullopt;
  }
  log_change(false, "");
  return whole_gpus(*devices);
}

// The socket is absent while a kubelet restarts, and where its folder is not mounted.
void Kubelet::log_change(bool is_absent, std::string error) {
  if (error == error_) return;
  if (error.empty()) {
    log::info("the kubelet answers again");
  } else {
    log::write(is_absent ? log::Level::info : log::Level::warning,
               error + "; until it answers, a plugin is trusted to hide a bad GPU");
  }
  error_ = std::move(error);
}

std::optional<std::set<std::string>> whole_gpus(const kubelet::AllocatableDevices& allocatable) {
  std::set<std::string> uuids;
  for (const kubelet::PluginDevice& device : allocatable.devices) {
    if (kubelet::is_whole_gpu(device.id)) uuids.insert(device.id);
  }
  if (uuids.empty()) return std::nullopt;
  return uuids;
}

}  // namespace gpuyard::cli::kube
