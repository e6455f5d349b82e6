#include "processes/group_names.h"

#include <algorithm>
#include <array>

#include "processes/valid_text.h"

namespace gpuyard::processes {
namespace {

constexpr std::size_t kLongestName = 255;  // of a unit, and of a directory

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

constexpr std::size_t kIdLength = 64;  // of docker, containerd, CRI-O and podman alike

bool is_id(std::string_view text) {
  return text.size() == kIdLength && std::ranges::all_of(text, is_hex);
}

std::optional<std::string_view> between(std::string_view text, std::string_view before,
                                        std::string_view after) {
  if (text.size() <= before.size() + after.size()) return std::nullopt;
  if (!text.starts_with(before) || !text.ends_with(after)) return std::nullopt;
  text.remove_prefix(before.size());
  text.remove_suffix(after.size());
  return text;
}

// What a runtime puts before the id, with systemd as "docker-ID.scope", without as "crio-ID".
struct Prefix {
  std::string_view text;
  std::string_view runtime;
};
constexpr std::array kPrefixes = {
    Prefix{"docker-", "docker"},         Prefix{"cri-containerd-", "containerd"},
    Prefix{"nerdctl-", "containerd"},    Prefix{"crio-", "crio"},
    Prefix{"libpod-payload-", "podman"}, Prefix{"libpod-", "podman"}};

// "libpod-conmon-ID" and its like are the container's keeper on the host: no id follows the prefix.
std::optional<ContainerName> prefixed(std::string_view name) {
  if (name.ends_with(".scope")) name.remove_suffix(std::string_view(".scope").size());
  for (const Prefix& prefix : kPrefixes) {
    if (!name.starts_with(prefix.text)) continue;
    const std::string_view id = name.substr(prefix.text.size());
    if (is_id(id)) return ContainerName{std::string(id), std::string(prefix.runtime)};
  }
  return std::nullopt;
}

// "SLICE:cri-containerd:ID": a runtime that makes directories, told the name of a slice.
std::optional<ContainerName> with_colons(std::string_view name) {
  const std::size_t last = name.rfind(':');
  if (last == std::string_view::npos || !is_id(name.substr(last + 1))) return std::nullopt;
  const std::string_view before = name.substr(0, last);
  std::string prefix(before.substr(before.rfind(':') + 1));
  prefix += '-';
  ContainerName found{std::string(name.substr(last + 1)), {}};
  const auto known = std::ranges::find(kPrefixes, prefix, &Prefix::text);
  if (known != kPrefixes.end()) found.runtime = std::string(known->runtime);
  return found;
}

// A bare id in a directory. The kubelet's directories are the same for every runtime.
std::optional<ContainerName> bare(std::string_view name, std::string_view parent) {
  if (!is_id(name)) return std::nullopt;
  ContainerName found{std::string(name), {}};
  if (parent == "docker") found.runtime = "docker";
  return found;
}

std::optional<ContainerName> of_lxc(std::string_view name, std::string_view parent) {
  const auto named = [](std::string_view text) {
    return ContainerName{valid_text(text, kLongestName), "lxc"};
  };
  if (parent == "lxc" || parent == "lxc.payload") return named(name);
  if (const auto payload = between(name, "lxc.payload.", "")) return named(*payload);
  return std::nullopt;
}

// systemd escapes "-" in the name of a machine as "\x2d".
std::string unescaped(std::string_view name) {
  constexpr std::string_view kDash = "\\x2d";
  std::string text = valid_text(name, kLongestName);
  for (std::size_t at = 0; (at = text.find(kDash, at)) != std::string::npos; ++at) {
    text.replace(at, kDash.size(), "-");
  }
  return text;
}

std::optional<ContainerName> of_nspawn(std::string_view name, std::string_view parent) {
  if (parent != "machine.slice") return std::nullopt;
  auto machine = between(name, "systemd-nspawn@", ".service");
  if (!machine) machine = between(name, "machine-", ".scope");
  // Virtual machines of libvirt stand beside them.
  if (!machine || machine->starts_with("qemu\\x2d")) return std::nullopt;
  return ContainerName{unescaped(*machine), "systemd-nspawn"};
}

// A UID, or for a static pod the hash of its file.
bool is_pod_uid(std::string_view text) {
  constexpr std::size_t kHash = 32;
  constexpr std::size_t kUuid = 36;
  if (text.size() != kHash && text.size() != kUuid) return false;
  return std::ranges::all_of(text, [](char c) { return is_hex(c) || c == '-'; });
}

std::optional<std::string> numbered(std::string_view name, std::string_view before) {
  constexpr std::size_t kLongest = 64;
  const auto number = between(name, before, "");
  const auto usual = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' ||
           c == '_' || c == '.';
  };
  if (!number || number->size() > kLongest || !std::ranges::all_of(*number, usual)) {
    return std::nullopt;
  }
  return std::string(*number);
}

}  // namespace

std::optional<ContainerName> container_of(std::string_view name, std::string_view parent) {
  if (auto found = prefixed(name)) return found;
  if (auto found = with_colons(name)) return found;
  if (auto found = bare(name, parent)) return found;
  if (auto found = of_lxc(name, parent)) return found;
  return of_nspawn(name, parent);
}

// With systemd "kubepods-burstable-podUID.slice", its dashes as "_"; without "kubepods/burstable/
// podUID", or "kubepods/podUID" for a pod of the class Guaranteed. "..": out of our namespace.
std::optional<std::string> pod_of(std::string_view name, std::string_view parent) {
  std::string uid;
  const std::size_t slice = name.find(".slice");
  const std::size_t pod = name.substr(0, slice).rfind("-pod");
  if (slice != name.npos && pod != name.npos && name.substr(0, pod).find("kubepods") != name.npos) {
    uid = name.substr(0, slice).substr(pod + std::string_view("-pod").size());
    std::ranges::replace(uid, '_', '-');
  } else if (name.starts_with("pod") && (parent == "kubepods" || parent == "burstable" ||
                                         parent == "besteffort" || parent == "..")) {
    uid = name.substr(std::string_view("pod").size());
  }
  return is_pod_uid(uid) ? std::optional(uid) : std::nullopt;
}

// v2: "slurmstepd.scope/job_7", with several slurmd on a node "NODE_slurmstepd.scope/job_7".
// v1: "slurm/uid_1000/job_7", with several "slurm_NODE/uid_1000/job_7".
std::optional<std::string> slurm_job_of(std::string_view name, std::string_view parent,
                                        std::string_view grandparent) {
  const bool unified = parent == "slurmstepd.scope" || parent.ends_with("_slurmstepd.scope");
  const bool legacy =
      parent.starts_with("uid_") && (grandparent == "slurm" || grandparent.starts_with("slurm_"));
  return unified || legacy ? numbered(name, "job_") : std::nullopt;
}

std::optional<std::string> slurm_step_of(std::string_view name) {
  return numbered(name, "step_");
}

bool is_unit(std::string_view name) {
  return between(name, "", ".service") || between(name, "", ".scope");
}

bool is_slice(std::string_view name) {
  return between(name, "", ".slice").has_value();
}

bool is_user_manager(std::string_view name) {
  return between(name, "user@", ".service").has_value();
}

std::string unit_name(std::string_view name) {
  if (name.starts_with('_')) name.remove_prefix(1);
  return valid_text(name, kLongestName);
}

}  // namespace gpuyard::processes
