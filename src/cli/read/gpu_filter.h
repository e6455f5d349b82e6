// The fields of a GPU for the filter (base/filter.h), by which `gpuyard query --where`,
// `gpuyard top` and the page choose GPUs.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "base/filter.h"
#include "faces/protocol/leases.h"
#include "faces/protocol/resources.h"

namespace gpuyard::cli {

// Utilisation and memory in percent, degrees Celsius, watts, MHz.
inline constexpr std::array<std::string_view, 10> kGpuFields = {
    "gpu", "model", "util", "mem", "temp", "power", "clock", "user", "why", "health"};
// The numeric fields of kGpuFields.
inline constexpr std::array<std::string_view, 6> kGpuNumbers = {"gpu",  "util",  "mem",
                                                                "temp", "power", "clock"};

// A value for each of kGpuFields. `leases`: null where none are known.
std::vector<FilterValue> filter_values(const protocol::Device&, const protocol::Leases* leases);

// The probes that fill the fields.
ProbeSet probes_of_filter();

// The lease that has a GPU; null: none.
const protocol::Lease* lease_of(const protocol::Leases& leases, std::string_view uuid);

}  // namespace gpuyard::cli
