#include "cli/read/machine_facts.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/files.h"
#include "cli/screen/terminal.h"
#include "cli/shared_options.h"
#include "device/error.h"

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

bool is_there(const std::string& path) {
  std::error_code failed;
  return fs::exists(path, failed);
}

// Container engines leave one of these files.
bool in_container(const std::string& root) {
  return is_there(root + "/.dockerenv") || is_there(root + "/run/.containerenv") ||
         is_there(root + "/run/systemd/container");
}

// "535.104.05": the first word of the file that begins with a digit.
std::optional<std::string> module_version(const std::string& root) {
  constexpr std::size_t kMost = 4096;
  const auto text = read_file(root + "/proc/driver/nvidia/version", kMost);
  if (!text) return std::nullopt;
  for (const std::string& word : split(*text, ' ')) {
    if (!word.empty() && word.front() >= '0' && word.front() <= '9') return word;
  }
  return "of an unknown version";
}

std::vector<std::string> closed_nodes(const std::string& root) {
  std::vector<std::string> closed;
  const fs::path place = root + "/dev";
  for (const std::string& name : names_in(place)) {
    const fs::path path = place / name;
    if (!name.starts_with("nvidia") || fs::is_directory(path)) continue;
    if (::access(path.c_str(), R_OK | W_OK) != 0) closed.push_back("/dev/" + name);
  }
  return closed;
}

std::size_t gpus_on_pci(const std::string& root) {
  constexpr std::size_t kMost = 64;
  const fs::path place = root + "/sys/bus/pci/devices";
  std::size_t count = 0;
  for (const std::string& name : names_in(place)) {
    const auto vendor = read_file(place / name / "vendor", kMost);
    const auto kind = read_file(place / name / "class", kMost);
    if (vendor && kind && vendor->starts_with("0x10de") && kind->starts_with("0x03")) ++count;
  }
  return count;
}

constexpr std::string_view kContainer =
    "This is a container: give it the GPUs (docker run --gpus all, with the NVIDIA Container "
    "Toolkit on the host).";
constexpr std::string_view kSimulate = "To look around without a GPU: gpuyard devices --simulate 4";

constexpr std::string_view kNoGpu = "There is no NVIDIA GPU on the PCI bus of this machine.";

std::string advice_without_library(const MachineFacts& facts) {
  if (facts.in_container) return std::string(kContainer);
  if (facts.module_version) {
    return "The kernel module is loaded, its library was not found: install libnvidia-ml.so.1 of "
           "version " +
           *facts.module_version + ", or name its path with --nvml PATH.";
  }
  if (facts.gpus_on_pci == 0) return std::string(kNoGpu);
  const bool one = facts.gpus_on_pci == 1;
  return fmt::format(
      "There {} {} NVIDIA GPU{} on the PCI bus and no driver: install the NVIDIA driver.",
      one ? "is" : "are", facts.gpus_on_pci, one ? "" : "s");
}

std::string advice_without_permission(const MachineFacts& facts) {
  if (facts.closed_nodes.empty()) {
    return "The operating system keeps this user from the GPUs; in a container or unit, see its "
           "device rules (DeviceAllow, --device, cgroup).";
  }
  return fmt::format(
      "This user may not open {}: join the group that owns them, or run as one that may.",
      fmt::join(facts.closed_nodes, ", "));
}

std::string likeliest_advice(std::string_view reason, const MachineFacts& facts) {
  const auto says = [&](std::string_view words) { return reason.find(words) != reason.npos; };
  if (facts.simulated_world) {
    return "GPUYARD_SIM_WORLD names the simulated world in " + *facts.simulated_world +
           ": `gpuyard sim status` says whether it runs.";
  }
  if (says("cannot open shared object file")) {
    return "That library was named by --nvml, the configuration or GPUYARD_SIM_WORLD: is the path "
           "right? Without it the loader's own search finds the driver's.";
  }
  if (says("Shared Library Not Found")) return advice_without_library(facts);
  if (says("version mismatch")) {
    return "The driver was updated under the running kernel module" +
           (facts.module_version ? " (" + *facts.module_version + ")" : std::string()) +
           ": reboot, or stop what uses the GPUs and reload the nvidia modules.";
  }
  if (says("Insufficient Permissions") || says("blocked by the operating system")) {
    return advice_without_permission(facts);
  }
  if (!says("Driver Not Loaded")) {
    return "dmesg has what the kernel module says; a reboot or a reload of the driver may help.";
  }
  if (facts.in_container) return std::string(kContainer);
  return "Load the kernel module: modprobe nvidia; dmesg says why if it refuses (Secure Boot wants "
         "it signed).";
}

}  // namespace

MachineFacts machine_facts(const std::string& root) {
  const std::string world(environment_variable("GPUYARD_SIM_WORLD"));
  return {in_container(root), module_version(root), closed_nodes(root), gpus_on_pci(root),
          if_given(world)};
}

std::vector<std::string> advice_for(std::string_view reason, const MachineFacts& facts) {
  return {likeliest_advice(reason, facts), std::string(kSimulate)};
}

std::vector<std::string> advice_without_gpus(const MachineFacts& facts) {
  if (facts.in_container) return {std::string(kContainer)};
  if (facts.gpus_on_pci > 0) {
    return {
        "The PCI bus has an NVIDIA GPU that the driver does not list: dmesg says why it did not "
        "start."};
  }
  return {std::string(kNoGpu)};
}

}  // namespace gpuyard::cli
