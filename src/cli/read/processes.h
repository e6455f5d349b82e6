// Who uses the GPUs, for people.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json_shape.h"
#include "base/result.h"
#include "cli/client/source.h"
#include "cli/read/query_csv.h"
#include "cli/screen/terminal.h"
#include "protocol/resources.h"

namespace gpuyard::cli {

// Who uses the GPUs, as `--json` of `processes` and of `query --processes` prints it.

struct ListedProcess : protocol::ProcessInFull {
  std::uint32_t gpu_index = 0;
  std::string gpu_uuid;
  std::string gpu_pci_address;
  std::optional<std::string> name;
};
BOOST_DESCRIBE_STRUCT(ListedProcess, (protocol::ProcessInFull),
                      (gpu_index, gpu_uuid, gpu_pci_address, name))
GPUYARD_ABOUT(ListedProcess,
              {"name",
               "The program as it was started, where that may be seen; else the same as command."})

struct ProcessAnswer {
  int schema = protocol::kSchemaVersion;
  bool simulated = false;
  std::string taken_at;
  std::vector<ListedProcess> processes;
  std::map<std::string, std::string> missing;  // UUID of a GPU that lists none: why
};
BOOST_DESCRIBE_STRUCT(ProcessAnswer, (), (schema, simulated, taken_at, processes, missing))

// Those of every GPU in the snapshot; by the GPU's index with their arguments, where there is such
// an answer.
using InFull = std::map<std::uint32_t, protocol::DeviceProcesses>;
ProcessAnswer process_answer(const protocol::Snapshot&, const InFull& = {});

// The same, with the arguments that this user may see. The snapshot is the source's last.
Result<ProcessAnswer> ask_processes(client::Source&, const protocol::Snapshot&);

// The program as it was started, "/usr/bin/python3", where that may be seen; else the kernel's name
// for it.
std::optional<std::string> program_of(const protocol::ProcessInFull&);

// The user's name, or number where it has no name; "-" for one that is not known.
std::string user_text(const protocol::Process&);

// The place that says most: Slurm job, pod, container, unit.
std::string place_text(const protocol::Process&);

// The arguments, or the name where they may not be seen.
std::string command_text(const protocol::ProcessInFull&);

// One row for each process and GPU; below it why something is not known. On a narrow screen these
// go, in this order: times, kinds, shares, places.
std::string process_table(const ProcessAnswer&, const Screen&);

// Who uses the GPUs, in the words of nvidia-smi's --query-compute-apps.

// Names as nvidia-smi's header has them; Errc::invalid for another. None: pid, process_name,
// gpu_uuid and used_gpu_memory.
Result<std::vector<std::string>> parse_process_fields(const std::vector<std::string>& names);

// Processes that compute, as nvidia-smi lists them.
std::string process_csv(const std::vector<std::string>& fields, const ProcessAnswer&,
                        const Queried&, CsvStyle);

}  // namespace gpuyard::cli
