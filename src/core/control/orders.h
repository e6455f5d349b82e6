// From a request to the orders that it makes for each GPU. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "control/order.h"

namespace gpuyard::control {

inline constexpr std::size_t kMostGpus = 64;  // of one request
inline constexpr Duration kLongest = std::chrono::hours(24 * 366);

// Errc::invalid, for what is wrong with it whatever GPU it is asked of.
Result<void> check_request(const Request&);

// What was asked for, of one GPU.
Job job_of(const Action&);

// One order; to restore everything, one for each setting that the asker holds. `holdings` are the
// GPU's.
std::vector<Order> orders_of(const Request&, const std::map<SettingKind, Holding>& holdings);

}  // namespace gpuyard::control
