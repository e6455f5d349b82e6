// Which GPUs the user named.
#pragma once

#include <string_view>

#include "base/result.h"
#include "protocol/resources.h"

namespace gpuyard::cli {

// Keeps the GPUs that `names` lists, separated by commas, each an index, a UUID, or a PCI address
// in either spelling; in the order of the names. Errc::not_found for a name that is none.
Result<void> keep_only(protocol::Snapshot&, std::string_view names);

}  // namespace gpuyard::cli
