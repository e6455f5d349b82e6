// Lists of indexes, as the parameters gpu_ids and cpu_ids have them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/snapshot.h"

namespace gpuyard::zeus {

// "2, 0,2" is {0, 2}. Errc::invalid for an empty list or element and for what is no index; `what`
// is "GPU" or "CPU".
Result<std::vector<std::uint32_t>> parse_ids(std::string_view text, std::string_view what);

// Those that are named; without a list all that the driver will talk of. Errc::unavailable where
// there is no driver, Errc::invalid for an index that no GPU has.
Result<std::vector<DeviceInfo>> gpus_named(const Snapshot&, const std::optional<std::string>& ids);

// Whether it belongs to "all": not one that the driver says is gone.
bool is_there(const DeviceState&);

}  // namespace gpuyard::zeus
