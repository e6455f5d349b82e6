// What a control group's path says of the process in it: container, pod, batch job, unit. Pure
// text; knows no file and no process.
#pragma once

#include <string_view>

#include "device/process_facts.h"

namespace gpuyard::processes {

// `text` is that of /proc/<pid>/cgroup, of cgroups v1, v2 or both at once.
//
// The outermost container is told. What stands below it was named by who runs in there, and what
// stands below user@UID.service by that user: pods and jobs are not believed from such a place.
Placement placement_of(std::string_view text);

}  // namespace gpuyard::processes
