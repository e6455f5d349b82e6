// The processes of a GPU, as the API shows them. Arguments have a record of their own, so that
// bodies shared by all clients cannot hold any.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json_shape.h"
#include "base/record.h"
#include "gpu/device/process.h"

namespace gpuyard::protocol {

struct Process : GpuProcess, CgroupInfo {
  std::optional<std::string> user;
  std::optional<std::uint32_t> uid;
  std::optional<std::string> command;
  std::optional<WallTime> started_at;
  std::optional<std::int64_t> started_after_boot_ms;
  std::optional<double> cpu_percent;
  std::optional<std::int64_t> host_memory_bytes;
  std::map<std::string, std::string> missing;

  friend bool operator==(const Process&, const Process&) = default;
};
BOOST_DESCRIBE_STRUCT(Process, (),
                      (pid, kind, memory_bytes, sm_percent, user, uid, command, container,
                       container_runtime, pod, slurm_job, slurm_step, unit, slice, started_at,
                       started_after_boot_ms, cpu_percent, host_memory_bytes, missing))
GPUYARD_ABOUT(
    Process, {"pid", "PID as seen by the driver; it may differ inside a container."},
    {"memory_bytes", "Device memory; null if not reported."},
    {"sm_percent",
     "Share of the streaming multiprocessors since the previous list; null if not reported."},
    {"user", "Name of the effective user."},
    {"command", "Name of the process in the kernel, at most 15 bytes; the process can change it."},
    {"container",
     "ID of the outermost container, or its name if it has no ID; null: not in a container."},
    {"container_runtime",
     "docker, containerd, crio, podman, lxc or systemd-nspawn; null if the control group does not "
     "show it."},
    {"pod", "UID of the Kubernetes pod; null: not in a pod."},
    {"slurm_job", "Slurm job ID; null: not in a job."},
    {"unit", "systemd service or scope; null: none."},
    {"slice", "systemd slice; a user slice is named after the login user."},
    {"started_at", "When the process started."},
    {"started_after_boot_ms",
     "Start time since boot, exact to 10 ms; with the PID it identifies a process uniquely."},
    {"cpu_percent",
     "CPU time of all its threads between the last two samples, in percent of one core; null "
     "before the second sample."},
    {"host_memory_bytes", "Resident host memory, not GPU memory."},
    {"missing",
     "For each unknown field: its key and the reason; \"process\" if only the driver's data is "
     "known."})

struct ProcessWithArguments : Process {
  std::optional<std::vector<std::string>> arguments;

  friend bool operator==(const ProcessWithArguments&, const ProcessWithArguments&) = default;
};
BOOST_DESCRIBE_STRUCT(ProcessWithArguments, (Process), (arguments))
GPUYARD_ABOUT(ProcessWithArguments,
              {"arguments",
               "Arguments, including the program; only for the process's own user "
               "and administrators, over the Unix socket."})

// Without a directory only the driver's facts are known.
Process process_of(const GpuProcess&, const ProcessDirectory*);

// Returns only the driver's facts about the processes, not who they are.
std::optional<std::vector<GpuProcess>> gpu_processes_of(const std::optional<std::vector<Process>>&);

// `can_see`: whether the caller may see the arguments.
using ArgumentFilter = std::function<bool(const ProcessMetadata&)>;
ProcessWithArguments process_with_arguments(const GpuProcess&, const ProcessDirectory*,
                                            const ArgumentFilter& can_see);

}  // namespace gpuyard::protocol

namespace gpuyard::json {

GPUYARD_SCHEMA(protocol::Process);
GPUYARD_SCHEMA(protocol::ProcessWithArguments);

}  // namespace gpuyard::json
