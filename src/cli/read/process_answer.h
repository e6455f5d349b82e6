// Who uses the GPUs, as `--json` of `processes` and of `query --processes` prints it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json_shape.h"
#include "cli/client/source.h"
#include "protocol/resources.h"

namespace gpuyard::cli {

struct ListedProcess : protocol::ProcessInFull {
  std::uint32_t gpu_index = 0;
  std::string gpu_uuid;
  std::string gpu_pci_address;
  std::optional<std::string> name;
};
BOOST_DESCRIBE_STRUCT(ListedProcess, (protocol::ProcessInFull),
                      (gpu_index, gpu_uuid, gpu_pci_address, name))

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

}  // namespace gpuyard::cli

namespace gpuyard::json {

template <>
inline constexpr About about<&cli::ListedProcess::name>{
    "The program as it was started, where that may be seen; else the same as command."};

}  // namespace gpuyard::json
