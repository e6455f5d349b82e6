// Which rows of the catalog have a history, how often each is read, and by which names a person may
// ask for one.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/catalog.h"

namespace gpuyard::history {

// Milliseconds between two readings; 0: not remembered. That is what is a number without words, of
// the GPU, and not an inventory: what changes with a new driver or setting alone, and is no
// counter.
std::int64_t cadence_of(Metric);

std::vector<const Row*> remembered_rows();

// By its JSON key with or without the unit, nvidia-smi's name, a short name ("power"), or the
// beginning of one key alone. Errc::invalid names those that are near, or that are meant.
Result<const Row*> find_row(std::string_view name);

// "0" or "device_memory" of a row that exists more than once.
Result<std::uint16_t> find_element(const Row&, std::string_view name);

}  // namespace gpuyard::history
