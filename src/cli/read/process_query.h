// Who uses the GPUs, in the words of nvidia-smi's --query-compute-apps.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/read/process_answer.h"
#include "cli/read/query_csv.h"

namespace gpuyard::cli {

// Names as nvidia-smi's header has them; Errc::invalid for another. None: pid, process_name,
// gpu_uuid and used_gpu_memory.
Result<std::vector<std::string>> parse_process_fields(const std::vector<std::string>& names);

// Processes that compute, as nvidia-smi lists them.
std::string process_csv(const std::vector<std::string>& fields, const ProcessAnswer&,
                        const Queried&, CsvStyle);

}  // namespace gpuyard::cli
