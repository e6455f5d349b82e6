// The processes on the GPUs, for people.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json_shape.h"
#include "base/result.h"
#include "cli/read/query_csv.h"
#include "cli/screen/screen.h"
#include "cli/source.h"
#include "faces/protocol/history.h"
#include "faces/protocol/resources.h"

namespace gpuyard::cli {

// The processes on the GPUs, as `--json` of `processes` and of `query --processes` prints them.
struct ListedProcess : protocol::ProcessWithArguments {
  std::uint32_t gpu_index = 0;
  std::string gpu_uuid;
  std::string gpu_pci_address;
  std::optional<std::string> name;
};
BOOST_DESCRIBE_STRUCT(ListedProcess, (protocol::ProcessWithArguments),
                      (gpu_index, gpu_uuid, gpu_pci_address, name))
GPUYARD_ABOUT(ListedProcess,
              {"name", "The program as it was started, if visible; otherwise the same as command."})

struct ProcessAnswer : protocol::AnswerHead {
  std::string taken_at;
  std::vector<ListedProcess> processes;
  protocol::Reasons missing;  // by UUID, of the GPUs without a list
};
BOOST_DESCRIBE_STRUCT(ProcessAnswer, (protocol::AnswerHead), (taken_at, processes, missing))

// Lists the processes of every GPU in the snapshot. `DetailsByGpu` has those with arguments, by the
// GPU's index.
using DetailsByGpu = std::map<std::uint32_t, protocol::DeviceProcesses>;
ProcessAnswer process_answer(const protocol::Snapshot&, const DetailsByGpu& = {});

// The same, with the arguments that this user may see. It must be the source's last snapshot.
Result<ProcessAnswer> read_process_answer(Source&, const protocol::Snapshot&);

// Returns the program as it was started, "/usr/bin/python3", if this user may see it; else the
// kernel's name for it.
std::optional<std::string> program_of(const protocol::ProcessWithArguments&);

// Returns the user's name, or the number if it has no name; "-" if it is not known.
std::string user_text(const protocol::Process&);

// Returns the most telling place: Slurm job, pod, container, unit.
std::string location_text(const protocol::Process&);

// Returns the arguments, or the name if this user may not see them.
std::string command_text(const protocol::ProcessWithArguments&);

// Returns a row for each process and GPU, and below them why something is not known. A narrow
// screen drops columns in this order: times, kinds, shares, places.
Printable process_table(const ProcessAnswer&, const Screen&);

// Returns those of the past, the newest first.
Printable process_span_table(const protocol::ProcessSpans&, const Screen&, WallTime now);

// Returns the names as nvidia-smi's header has them; Errc::invalid for an unknown name. Without
// names: pid, process_name, gpu_uuid and used_gpu_memory.
Result<std::vector<std::string>> parse_process_fields(const std::vector<std::string>& names);

// Prints processes that compute, as nvidia-smi lists them.
Printable process_csv(const std::vector<std::string>& fields, const ProcessAnswer&,
                      const QueryInput&, CsvStyle);

}  // namespace gpuyard::cli
