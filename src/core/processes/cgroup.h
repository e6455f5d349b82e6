// What a control group's path says of the process in it: container, pod, batch job, unit. Pure
// text; knows no file and no process.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "device/process.h"

namespace gpuyard::processes {

// `text` is that of /proc/<pid>/cgroup, of cgroups v1, v2 or both at once.
//
// The outermost container is told. What stands below it was named by who runs in there, and what
// stands below user@UID.service by that user: pods and jobs are not believed from such a place.
Placement placement_of(std::string_view text);

// How container runtimes, Kubernetes, Slurm and systemd name their control groups: one name at a
// time. The facts behind each row are in group_names.cpp.

struct ContainerName {
  std::string id;
  std::optional<std::string> runtime;
};

// `parent`: the name of the group above, "" at the root.
std::optional<ContainerName> container_of(std::string_view name, std::string_view parent);

// The UID of a Kubernetes pod.
std::optional<std::string> pod_of(std::string_view name, std::string_view parent);

std::optional<std::string> slurm_job_of(std::string_view name, std::string_view parent,
                                        std::string_view grandparent);
std::optional<std::string> slurm_step_of(std::string_view name);

// A service or a scope of systemd.
bool is_unit(std::string_view name);
bool is_slice(std::string_view name);
// The service manager of one user, below whom the user makes the groups.
bool is_user_manager(std::string_view name);
// As systemd calls it: a name that the kernel could misunderstand has a "_" before it.
std::string unit_name(std::string_view name);

}  // namespace gpuyard::processes
