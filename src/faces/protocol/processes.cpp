#include "faces/protocol/processes.h"

#include <cmath>

namespace gpuyard::protocol {
namespace {

constexpr std::string_view kProcess = "process";  // stands for every field below the driver's own

void put_placement(Process& out, const Result<CgroupInfo>& placement) {
  if (!placement) {
    for (const char* key :
         {"container", "container_runtime", "pod", "slurm_job", "slurm_step", "unit", "slice"}) {
      out.missing[key] = placement.error().text();
    }
    return;
  }
  static_cast<CgroupInfo&>(out) = *placement;
}

void put_facts(Process& out, const ProcessMetadata& facts) {
  out.uid = facts.uid;
  out.command = facts.command;
  out.started_at = facts.started_at;
  out.started_after_boot_ms = to_milliseconds(facts.started.time_since_epoch());
  if (facts.cpu_percent) out.cpu_percent = std::round(*facts.cpu_percent * 10) / 10;
  if (facts.use.memory_bytes > 0) out.host_memory_bytes = facts.use.memory_bytes;
  if (facts.user) {
    out.user = *facts.user;
  } else {
    out.missing["user"] = facts.user.error().text();
  }
  put_placement(out, facts.cgroup);
}

Result<const ProcessMetadata*> facts_of(const GpuProcess& process,
                                        const ProcessDirectory* directory) {
  if (directory != nullptr) return directory->find(process.pid);
  return Error{Errc::unavailable, "not looked up"};
}

Process make_process(const GpuProcess& process, const Result<const ProcessMetadata*>& facts) {
  Process out;
  static_cast<GpuProcess&>(out) = process;
  if (facts) {
    put_facts(out, **facts);
  } else {
    out.missing[std::string(kProcess)] = facts.error().text();
  }
  return out;
}

}  // namespace

Process process_of(const GpuProcess& process, const ProcessDirectory* directory) {
  return make_process(process, facts_of(process, directory));
}

std::optional<std::vector<GpuProcess>> gpu_processes_of(
    const std::optional<std::vector<Process>>& shown) {
  if (!shown) return std::nullopt;
  return std::vector<GpuProcess>(shown->begin(), shown->end());
}

ProcessWithArguments process_with_arguments(const GpuProcess& process,
                                            const ProcessDirectory* directory,
                                            const ArgumentFilter& can_see) {
  const auto facts = facts_of(process, directory);
  ProcessWithArguments out{make_process(process, facts), {}};
  if (!facts) return out;
  const auto& arguments = (*facts)->arguments;
  if (!can_see(**facts)) {
    out.missing["arguments"] =
        "shown only to the process's own user and to administrators, over the Unix socket";
  } else if (arguments) {
    out.arguments = *arguments;
  } else {
    out.missing["arguments"] = arguments.error().text();
  }
  return out;
}

}  // namespace gpuyard::protocol
