#include "core/processes/cgroup.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "core/processes/proc_files.h"

namespace gpuyard::processes {
namespace {

// One of the hierarchies that a process is in: "4:memory:/user.slice", "0::/init.scope".
struct Line {
  std::string_view controllers;
  std::string_view path;

  bool is_unified() const { return controllers.empty(); }
  bool is_systemd() const { return is_unified() || controllers == "name=systemd"; }
};

std::string_view without_suffix(std::string_view text, std::string_view suffix) {
  if (text.ends_with(suffix)) text.remove_suffix(suffix.size());
  return text;
}

// Returns systemd's hierarchy first: every process has its place there, even if another program
// manages the other hierarchies.
std::vector<Line> lines_of(std::string_view text) {
  constexpr std::size_t kMaxHierarchies = 64;
  std::vector<Line> first;
  std::vector<Line> others;
  while (!text.empty() && first.size() + others.size() < kMaxHierarchies) {
    std::string_view line = take_until('\n', text);
    take_until(':', line);  // its number
    const std::string_view controllers = take_until(':', line);
    if (!line.starts_with('/')) continue;
    const Line one{controllers, without_suffix(line, " (deleted)")};
    (one.is_systemd() ? first : others).push_back(one);
  }
  first.insert(first.end(), others.begin(), others.end());
  return first;
}

struct DescentResult {
  CgroupInfo info;
  std::optional<Group> container;
};

constexpr int kMaxCgroupDepth = 64;

// Walks down one path, group by group.
class Descent {
 public:
  Descent(const Line& line, const MakerLookup& maker_of) : line_(line), maker_of_(maker_of) {}

  DescentResult walk() {
    std::string_view path = line_.path;
    for (int depth = 0; depth < kMaxCgroupDepth && !path.empty() && !result_.container; ++depth) {
      const std::string_view name = take_until('/', path);
      if (name.empty()) continue;
      current_path_ = line_.path.substr(
          0, static_cast<std::size_t>(name.data() + name.size() - line_.path.data()));
      if (name != "..") enter(name);  // ".." leads out of a control group namespace
      grandparent_ = parent_;
      parent_ = name;
    }
    return std::move(result_);
  }

 private:
  void enter(std::string_view name) {
    if (line_.is_systemd()) record_unit(name);
    const auto pod = pod_of(name, parent_);
    if (pod && !is_user_made()) info().pod = *pod;
    record_job(name);
    if (auto container = container_of(name, parent_)) {
      info().container = std::move(container->id);
      info().container_runtime = std::move(container->runtime);
      result_.container = current_group();
    }
    below_manager_ = below_manager_ || is_user_manager(name);
  }

  CgroupInfo& info() { return result_.info; }
  Group current_group() const {
    return {std::string(line_.controllers), std::string(current_path_)};
  }
  bool is_user_made() const {
    return maker_of_ && maker_of_(current_group()).value_or(kRootUid) != kRootUid;
  }

  void record_unit(std::string_view name) {
    if (is_slice(name) && !below_manager_) info().slice = unit_name(name);
    if (!is_unit(name)) return;
    const bool managers_own = below_manager_ && name == "init.scope";
    const bool systemds = below_manager_ || !is_user_made();
    if (systemds && !managers_own) info().unit = unit_name(name);
  }

  void record_job(std::string_view name) {
    CgroupInfo& known = info();
    if (const auto job = slurm_job_of(name, parent_, grandparent_)) {
      if (!is_user_made()) known.slurm_job = *job;
    } else if (known.slurm_job && !known.slurm_step && parent_.starts_with("job_")) {
      known.slurm_step = slurm_step_of(name);
    }
  }

  const Line& line_;
  const MakerLookup& maker_of_;
  std::string_view current_path_;  // the path of the current group
  bool below_manager_ = false;
  std::string_view parent_;
  std::string_view grandparent_;
  DescentResult result_;
};

// Adds to `known` what only `more` has.
void fill_missing(CgroupInfo& known, CgroupInfo more) {
  if (!known.container) {
    known.container = std::move(more.container);
    known.container_runtime = std::move(more.container_runtime);
  }
  if (!known.pod) known.pod = std::move(more.pod);
  if (!known.slurm_job) {
    known.slurm_job = std::move(more.slurm_job);
    known.slurm_step = std::move(more.slurm_step);
  }
  if (!known.unit) known.unit = std::move(more.unit);
  if (!known.slice) known.slice = std::move(more.slice);
}

// Groups that systemd and container runtimes create at the root and below, and never delegate to a
// user. Services and scopes may be delegated (Delegate=).
bool is_root_managed(std::string_view name, std::string_view parent) {
  constexpr std::array<std::string_view, 8> kNames = {
      "..", "docker", "kubepods", "burstable", "besteffort", "lxc", "lxc.payload", "libpod_parent"};
  return is_slice(name) || std::ranges::find(kNames, name) != kNames.end() ||
         pod_of(name, parent).has_value();
}

constexpr std::size_t kMaxNameLength = 255;  // bytes of a unit's or a directory's name

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

constexpr std::size_t kContainerIdLength = 64;  // of docker, containerd, CRI-O and podman alike

bool is_id(std::string_view text) {
  return text.size() == kContainerIdLength && std::ranges::all_of(text, is_hex);
}

std::optional<std::string_view> strip_affixes(std::string_view text, std::string_view before,
                                              std::string_view after) {
  if (text.size() <= before.size() + after.size()) return std::nullopt;
  if (!text.starts_with(before) || !text.ends_with(after)) return std::nullopt;
  text.remove_prefix(before.size());
  text.remove_suffix(after.size());
  return text;
}

// A runtime's prefix before the id: "docker-ID.scope" with systemd, "crio-ID" without.
struct Prefix {
  std::string_view text;
  std::string_view runtime;
};
constexpr std::array kPrefixes = {
    Prefix{"docker-", "docker"},         Prefix{"cri-containerd-", "containerd"},
    Prefix{"nerdctl-", "containerd"},    Prefix{"crio-", "crio"},
    Prefix{"libpod-payload-", "podman"}, Prefix{"libpod-", "podman"}};

// Names like "libpod-conmon-ID" are the container's monitor on the host: no id follows the prefix.
std::optional<ContainerName> parse_prefixed_id(std::string_view name) {
  name = without_suffix(name, ".scope");
  for (const Prefix& prefix : kPrefixes) {
    if (!name.starts_with(prefix.text)) continue;
    const std::string_view id = name.substr(prefix.text.size());
    if (is_id(id)) return ContainerName{std::string(id), std::string(prefix.runtime)};
  }
  return std::nullopt;
}

// Reads "SLICE:cri-containerd:ID", from a runtime that makes directories but was given a slice.
std::optional<ContainerName> parse_colon_id(std::string_view name) {
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
std::optional<ContainerName> parse_bare_id(std::string_view name, std::string_view parent) {
  if (!is_id(name)) return std::nullopt;
  return ContainerName{std::string(name),
                       parent == "docker" ? std::optional<std::string>("docker") : std::nullopt};
}

std::optional<ContainerName> parse_lxc_name(std::string_view name, std::string_view parent) {
  const auto named = [](std::string_view text) {
    return ContainerName{valid_text(text, kMaxNameLength), "lxc"};
  };
  if (parent == "lxc" || parent == "lxc.payload") return named(name);
  if (const auto payload = strip_affixes(name, "lxc.payload.", "")) return named(*payload);
  return std::nullopt;
}

std::optional<ContainerName> parse_nspawn_name(std::string_view name, std::string_view parent) {
  if (parent != "machine.slice") return std::nullopt;
  auto machine = strip_affixes(name, "systemd-nspawn@", ".service");
  if (!machine) machine = strip_affixes(name, "machine-", ".scope");
  // Virtual machines of libvirt are in the same slice.
  if (!machine || machine->starts_with("qemu\\x2d")) return std::nullopt;
  // systemd escapes "-" in the name of a machine as "\x2d".
  return ContainerName{replace_all(valid_text(*machine, kMaxNameLength), "\\x2d", "-"),
                       "systemd-nspawn"};
}

// A pod has a UID, or the hash of its file if it is static.
bool is_pod_uid(std::string_view text) {
  constexpr std::size_t kHash = 32;
  constexpr std::size_t kUuid = 36;
  if (text.size() != kHash && text.size() != kUuid) return false;
  return std::ranges::all_of(text, [](char c) { return is_hex(c) || c == '-'; });
}

std::optional<std::string> parse_numbered(std::string_view name, std::string_view before) {
  constexpr std::size_t kMaxLength = 64;
  const auto number = strip_affixes(name, before, "");
  const auto usual = [](char c) { return is_alphanumeric(c) || c == '+' || c == '_' || c == '.'; };
  if (!number || number->size() > kMaxLength || !std::ranges::all_of(*number, usual)) {
    return std::nullopt;
  }
  return std::string(*number);
}

}  // namespace

CgroupInfo cgroup_info_of(std::string_view text, const MakerLookup& maker_of) {
  CgroupInfo info;
  for (const Line& line : lines_of(text)) {
    fill_missing(info, Descent(line, maker_of).walk().info);
  }
  return info;
}

std::optional<Group> container_group_of(std::string_view text) {
  for (const Line& line : lines_of(text)) {
    if (auto found = Descent(line, {}).walk().container) return found;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> maker_by_path(const Group& group) {
  std::string_view above = std::string_view(group.path).substr(0, group.path.rfind('/'));
  std::string_view parent;
  for (int depth = 0; depth < kMaxCgroupDepth; ++depth) {
    if (above.empty()) return kRootUid;
    const std::string_view name = take_until('/', above);
    if (name.empty()) continue;
    if (const auto user = user_of_manager(name)) return user;
    if (!is_root_managed(name, parent)) return std::nullopt;
    parent = name;
  }
  return std::nullopt;
}

std::optional<ContainerName> container_of(std::string_view name, std::string_view parent) {
  if (auto found = parse_prefixed_id(name)) return found;
  if (auto found = parse_colon_id(name)) return found;
  if (auto found = parse_bare_id(name, parent)) return found;
  if (auto found = parse_lxc_name(name, parent)) return found;
  return parse_nspawn_name(name, parent);
}

// With systemd "kubepods-burstable-podUID.slice", the UID's dashes as "_". Without it
// "kubepods/burstable/podUID", or "kubepods/podUID" for a pod of the class Guaranteed. A parent
// ".." is outside of our namespace.
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
  return unified || legacy ? parse_numbered(name, "job_") : std::nullopt;
}

std::optional<std::string> slurm_step_of(std::string_view name) {
  return parse_numbered(name, "step_");
}

bool is_unit(std::string_view name) {
  return strip_affixes(name, "", ".service") || strip_affixes(name, "", ".scope");
}

bool is_slice(std::string_view name) {
  return strip_affixes(name, "", ".slice").has_value();
}

bool is_user_manager(std::string_view name) {
  return strip_affixes(name, "user@", ".service").has_value();
}

std::optional<std::uint32_t> user_of_manager(std::string_view name) {
  const auto number = strip_affixes(name, "user@", ".service");
  return number ? parse_number<std::uint32_t>(*number) : std::nullopt;
}

std::string unit_name(std::string_view name) {
  if (name.starts_with('_')) name.remove_prefix(1);
  return valid_text(name, kMaxNameLength);
}

}  // namespace gpuyard::processes
