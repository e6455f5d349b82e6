// What was used under leases, as the API tells it.
#pragma once

#include <map>
#include <string>

#include "lease/use_count.h"
#include "protocol/leases.h"

namespace gpuyard::protocol {

LeaseUse lease_use_of(const lease::Use&);

// By uid; who is not in it has no name that is known.
using UserNames = std::map<std::uint32_t, std::string>;

Usage usage_of(const lease::UseAnswer&, const lease::UseQuestion&, const UserNames& = {});

// The first row as a CSV document has it, with its line end; then a row for each of Usage::rows,
// and one without a key for what was used under no lease.
inline constexpr const char* kUsageCsvHeader =
    "key,uid,gpu_hours,energy_kwh,energy_estimated,mean_utilization_percent,peak_memory_bytes,"
    "leases,energy_unknown_gpu_hours\n";
std::string csv_of(const Usage&);

}  // namespace gpuyard::protocol
