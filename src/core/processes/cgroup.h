// Reads the path of a control group: the container, pod, batch job and unit of the process in it.
// Pure text; knows no file and no process.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "device/process.h"

namespace gpuyard::processes {

// `text` is that of /proc/<pid>/cgroup, of cgroups v1, v2 or both at once.
//
// Returns the outermost container. The groups below it were named by its processes, and the groups
// below user@UID.service by that user: pods and jobs are not believed in such a place.
Placement placement_of(std::string_view text);

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
// Returns systemd's name. The group has a "_" before a name that the kernel could misunderstand.
std::string unit_name(std::string_view name);

}  // namespace gpuyard::processes
