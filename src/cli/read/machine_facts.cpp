#include "cli/read/machine_facts.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include <fmt/format.h>

#include "base/container.h"
#include "base/files.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "cli/shared_options.h"
#include "core/processes/user_names.h"
#include "gpu/device/error.h"
#include "io/http/endpoint.h"

namespace gpuyard::cli {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::directory_iterator at(directory, failed), end; !failed && at != end;
       at.increment(failed)) {
    names.push_back(at->path().filename());
  }
  std::ranges::sort(names);
  return names;
}

// "535.104.05": the first word of the file that begins with a digit.
std::optional<std::string> module_version(const std::string& root) {
  constexpr std::size_t kMaxVersionBytes = 4096;
  const auto text = read_file(root + "/proc/driver/nvidia/version", kMaxVersionBytes);
  if (!text) return std::nullopt;
  for (const std::string& word : split(*text, ' ')) {
    if (!word.empty() && word.front() >= '0' && word.front() <= '9') return word;
  }
  return "(unknown)";
}

std::vector<std::string> closed_nodes(const std::string& root) {
  std::vector<std::string> closed;
  const fs::path directory = root + "/dev";
  for (const std::string& name : names_in(directory)) {
    const fs::path path = directory / name;
    if (!name.starts_with("nvidia") || fs::is_directory(path)) continue;
    if (::access(path.c_str(), R_OK | W_OK) != 0) closed.push_back("/dev/" + name);
  }
  return closed;
}

std::size_t gpus_on_pci(const std::string& root) {
  constexpr std::size_t kMaxIdBytes = 64;
  const fs::path directory = root + "/sys/bus/pci/devices";
  std::size_t count = 0;
  for (const std::string& name : names_in(directory)) {
    const auto vendor = read_file(directory / name / "vendor", kMaxIdBytes);
    const auto kind = read_file(directory / name / "class", kMaxIdBytes);
    if (vendor && kind && vendor->starts_with("0x10de") && kind->starts_with("0x03")) ++count;
  }
  return count;
}

constexpr std::string_view kContainerAdvice =
    "This container has no access to the GPUs: start it with `docker run --gpus all`, with the "
    "NVIDIA Container Toolkit installed on the host.";
constexpr std::string_view kPodAdvice =
    "This pod has no access to the GPUs: set runtimeClassName: nvidia and "
    "NVIDIA_VISIBLE_DEVICES=all. Do not request nvidia.com/gpu, which would take a GPU away from "
    "other workloads.";
constexpr std::string_view kSimulateAdvice =
    "To try gpuyard without a GPU: gpuyard devices --simulate 4";

constexpr std::string_view kNoGpuAdvice = "No NVIDIA GPU found on the PCI bus of this machine.";

std::string advice_in_container(const MachineFacts& facts) {
  return std::string(facts.in_pod ? kPodAdvice : kContainerAdvice);
}

std::string advice_without_library(const MachineFacts& facts) {
  if (facts.in_container) return advice_in_container(facts);
  if (facts.module_version) {
    return "The kernel module is loaded, but its library was not found: install libnvidia-ml.so.1 "
           "of version " +
           *facts.module_version + ", or pass its path with --nvml PATH.";
  }
  if (facts.gpus_on_pci == 0) return std::string(kNoGpuAdvice);
  const bool one = facts.gpus_on_pci == 1;
  return fmt::format(
      "There {} {} NVIDIA GPU{} on the PCI bus but no driver: install the NVIDIA driver.",
      one ? "is" : "are", facts.gpus_on_pci, one ? "" : "s");
}

std::string advice_without_permission(const MachineFacts& facts) {
  if (facts.in_container) {
    return "This container has lost access to its GPUs: `systemctl daemon-reload` on the host "
           "revokes it from running containers. Restart the container; with CDI devices (--device "
           "nvidia.com/gpu=all) it keeps its access.";
  }
  if (facts.closed_nodes.empty()) {
    return "The operating system blocks this user from the GPUs. In a systemd unit, check its "
           "device rules (DeviceAllow, cgroup).";
  }
  return fmt::format(
      "This user cannot open {}: join the group that owns the device files, or run as a user with "
      "access.",
      fmt::join(facts.closed_nodes, ", "));
}

std::string likeliest_advice(std::string_view reason, const MachineFacts& facts) {
  const auto says = [&](std::string_view words) { return reason.find(words) != reason.npos; };
  if (facts.simulated_world) {
    return "GPUYARD_SIM_WORLD points to the simulated world in " + *facts.simulated_world +
           ". Check that it is running: gpuyard sim status";
  }
  if (says("cannot open shared object file")) {
    return "The library path comes from --nvml, the configuration or GPUYARD_SIM_WORLD. Check the "
           "path, or remove it to let the loader find the driver's library.";
  }
  if (says("Shared Library Not Found")) return advice_without_library(facts);
  if (says("version mismatch")) {
    return "The driver was updated, but the old kernel module is still loaded" +
           (facts.module_version ? " (" + *facts.module_version + ")" : std::string()) +
           ": reboot, or stop all GPU processes and reload the nvidia modules.";
  }
  if (says("Insufficient Permissions") || says("blocked by the operating system")) {
    return advice_without_permission(facts);
  }
  if (!says("Driver Not Loaded")) {
    return "Check dmesg for messages of the kernel module. Reloading the driver or rebooting may "
           "help.";
  }
  if (facts.in_container) return advice_in_container(facts);
  if (facts.gpus_on_pci == 0) {
    return fmt::format("{} The library is here, but its kernel module has nothing to drive.",
                       kNoGpuAdvice);
  }
  return "Load the kernel module: modprobe nvidia. If that fails, dmesg shows why (Secure Boot "
         "requires a signed module).";
}

}  // namespace

MachineFacts machine_facts(const std::string& root) {
  const std::string world(environment_variable("GPUYARD_SIM_WORLD"));
  return {is_in_container(root), is_in_pod(),       module_version(root),
          closed_nodes(root),    gpus_on_pci(root), non_empty(world)};
}

std::optional<std::string> listener_user(const std::string& socket) {
  const auto address = http::to_socket_address(http::Endpoint::unix_socket(socket));
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ucred peer{};
  socklen_t size = sizeof peer;
  if (!address || !fd || ::connect(fd.get(), address->get(), address->length) != 0 ||
      ::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid == 0) {
    return std::nullopt;
  }
  const auto name = processes::look_up_user(peer.uid);
  return name ? *name : std::to_string(peer.uid);
}

std::vector<std::string> advice_for(std::string_view reason, const MachineFacts& facts) {
  return {likeliest_advice(reason, facts), std::string(kSimulateAdvice)};
}

std::vector<std::string> advice_without_gpus(const MachineFacts& facts) {
  if (facts.in_container) return {advice_in_container(facts)};
  if (facts.gpus_on_pci > 0) {
    return {
        "An NVIDIA GPU on the PCI bus is not listed by the driver. Check dmesg for the reason."};
  }
  return {std::string(kNoGpuAdvice)};
}

}  // namespace gpuyard::cli
