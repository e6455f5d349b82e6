#include "cli/kube/kubelet.h"

#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "io/kubelet/client.h"
#include "io/kubelet/device_id.h"

namespace gpuyard::cli::kube {

Kubelet::Kubelet(std::string socket) : socket_(std::move(socket)) {
  if (!socket_.empty()) return;
  log::info("the kubelet is not asked which GPUs a device plugin offers, and which pods have GPUs");
}

std::optional<kubelet::AllocatableDevices> Kubelet::fetch_devices() {
  if (socket_.empty()) return std::nullopt;
  return take(kubelet::fetch_allocatable_devices(socket_), allocatable_);
}

std::optional<std::set<std::string>> Kubelet::fetch_allocatable() {
  const auto devices = fetch_devices();
  return devices ? whole_gpus(*devices) : std::nullopt;
}

std::optional<std::set<std::string>> Kubelet::fetch_offered() {
  const auto devices = fetch_devices();
  return devices ? offered_gpus(*devices) : std::nullopt;
}

std::optional<std::vector<kubelet::Pod>> Kubelet::fetch_pods() {
  if (socket_.empty()) return std::nullopt;
  return take(kubelet::fetch_pods(socket_), pods_);
}

// Logs a change. The socket is absent while a kubelet restarts, and where its folder is not
// mounted.
template <class Value>
std::optional<Value> Kubelet::take(Result<Value> answer, Question& question) {
  const std::string error = answer ? "" : answer.error().text();
  if (error != question.error && error.empty()) {
    log::info("the kubelet answers again");
  } else if (error != question.error) {
    const bool is_absent = answer.error().code == Errc::not_found;
    log::write(is_absent ? log::Level::info : log::Level::warning,
               fmt::format("{}; until it answers, {}", error, question.effect));
  }
  question.error = error;
  if (!answer) return std::nullopt;
  return *std::move(answer);
}

std::optional<std::set<std::string>> whole_gpus(const kubelet::AllocatableDevices& allocatable) {
  std::set<std::string> uuids;
  for (const kubelet::PluginDevice& device : allocatable.devices) {
    if (kubelet::is_whole_gpu(device.id)) uuids.insert(device.id);
  }
  if (uuids.empty()) return std::nullopt;
  return uuids;
}

std::optional<std::set<std::string>> offered_gpus(const kubelet::AllocatableDevices& allocatable) {
  auto uuids = whole_gpus(allocatable);
  if (!uuids) return std::nullopt;
  for (const kubelet::PluginDevice& device : allocatable.devices) {
    const std::string_view uuid = kubelet::gpu_uuid_of(device.id);
    if (!uuid.empty()) uuids->emplace(uuid);
  }
  return uuids;
}

}  // namespace gpuyard::cli::kube
