// Who uses the GPUs: nvidia-smi's --query-compute-apps, and the same as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json_schema.h"
#include "base/result.h"
#include "cli/query_csv.h"
#include "protocol/resources.h"

namespace gpuyard::cli {

struct ListedProcess {
  std::uint32_t gpu_index = 0;
  std::string gpu_uuid;
  std::string gpu_pci_address;
  std::uint32_t pid = 0;
  ProcessKind kind = ProcessKind::compute;
  std::optional<std::string> name;
  std::optional<std::int64_t> memory_bytes;
  std::optional<std::int64_t> sm_percent;
};
BOOST_DESCRIBE_STRUCT(ListedProcess, (),
                      (gpu_index, gpu_uuid, gpu_pci_address, pid, kind, name, memory_bytes,
                       sm_percent))

struct ProcessAnswer {
  int schema = protocol::kSchemaVersion;
  bool simulated = false;
  std::string taken_at;
  std::vector<ListedProcess> processes;
  std::map<std::string, std::string> missing;  // UUID of a GPU that lists none: why
};
BOOST_DESCRIBE_STRUCT(ProcessAnswer, (), (schema, simulated, taken_at, processes, missing))

// `local_pids`: process ids are those of this machine, so that they can be named.
ProcessAnswer process_answer(const protocol::Snapshot&, bool local_pids);

// Names as nvidia-smi's header has them; Errc::invalid for another. None: pid, process_name,
// gpu_uuid and used_gpu_memory.
Result<std::vector<std::string>> parse_process_fields(const std::vector<std::string>& names);

// Processes that compute, as nvidia-smi lists them.
std::string process_csv(const std::vector<std::string>& fields, const ProcessAnswer&,
                        const Queried&, CsvStyle);

}  // namespace gpuyard::cli
