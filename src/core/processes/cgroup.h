// Reads the path of a control group: the container, pod, batch job and unit of the process in it.
// Pure text; knows no file and no process.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "gpu/device/process.h"

namespace gpuyard::processes {

inline constexpr std::uint32_t kRootUid = 0;

// A control group, as this process sees it in /proc/<pid>/cgroup.
struct Group {
  std::string hierarchy = {};  // its controllers, or "name=systemd"; "": the unified one
  std::string path = {};

  friend auto operator<=>(const Group&, const Group&) = default;
};

// Returns the user who created a group and thereby chose its name; nothing if unknown.
using MakerLookup = std::function<std::optional<std::uint32_t>(const Group&)>;

// Decides by the path alone. Groups below user@UID.service are that user's; groups directly below
// slices and those of container runtimes are root's. Other groups are unknown.
std::optional<std::uint32_t> maker_by_path(const Group&);

// `text` is that of /proc/<pid>/cgroup, of cgroups v1, v2 or both at once.
//
// Returns the outermost container. Its own processes name the groups below it. The names of pods,
// jobs and units are ignored in groups that a user created, except units below user@UID.service.
CgroupInfo cgroup_info_of(std::string_view text, const MakerLookup& = maker_by_path);

// Returns the group of the outermost container. Its path is unique on the machine, but any user may
// use a container's id as the name of another group.
std::optional<Group> container_group_of(std::string_view text);

// Recognise one name of a control group, as container runtimes, Kubernetes, Slurm and systemd make
// them. The facts behind each are in cgroup.cpp.
struct ContainerName {
  std::string id;
  std::optional<std::string> runtime;
};

// `parent`: the name of the group above, "" at the root.
std::optional<ContainerName> container_of(std::string_view name, std::string_view parent);

// Returns the UID of a Kubernetes pod.
std::optional<std::string> pod_of(std::string_view name, std::string_view parent);

std::optional<std::string> slurm_job_of(std::string_view name, std::string_view parent,
                                        std::string_view grandparent);
std::optional<std::string> slurm_step_of(std::string_view name);

// Returns whether the name is of a service or a scope of systemd.
bool is_unit(std::string_view name);
bool is_slice(std::string_view name);
// Returns whether the name is of one user's service manager, below which that user makes groups.
bool is_user_manager(std::string_view name);
// Returns UID if the name is user@UID.service.
std::optional<std::uint32_t> user_of_manager(std::string_view name);
// Returns systemd's name. The group has a "_" before a name that the kernel could misunderstand.
std::string unit_name(std::string_view name);

}  // namespace gpuyard::processes
